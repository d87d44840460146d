"""A machine that was measured."""

from __future__ import annotations

from pathlib import Path

from emplace.local_store import local_cost_models
from emplace.placement.catalog import builtin_host
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.host import HostSpec
from tests.prices import bandwidth_prices


def machine(fingerprint: str | None) -> HostSpec:
    return builtin_host("cpu-dual-socket").model_copy(update={"name": "local", "fingerprint": fingerprint})


def measured(fingerprint: str, ranks: int) -> CostModel:
    datasheet = bandwidth_prices(machine(fingerprint))
    return datasheet.model_copy(update={"source": CostSource.MEASURED, "fingerprint": fingerprint, "ranks": ranks})


def keep(model: CostModel) -> Path:
    """Where the model is kept now."""
    return Path(local_cost_models().keep(model))
