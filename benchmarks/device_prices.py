"""What devices need, for questions about the solver: where launches or input take longest, every placement is as good as any."""

from __future__ import annotations

from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.host import HostSpec


def device_prices(host: HostSpec) -> CostModel:
    """The datasheet's prices without launches and without input."""
    return datasheet_cost_model(host).model_copy(update={"launches": None, "ingest": None})
