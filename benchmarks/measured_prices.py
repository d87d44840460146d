"""The prices that benchmarks of predictions rest on: those that `emplace profile` stored for this machine."""

from __future__ import annotations

from emplace.cost_model_store import find_cost_model
from emplace.local_store import local_cost_models
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import ToolError
from emplace.placement.host import HostSpec


def measured_prices(host: HostSpec, ranks: int) -> CostModel:
    """Measured here with as many ranks, beside the reference step. Raises ToolError where there are none."""
    stored = find_cost_model(local_cost_models(), host, ranks)
    if stored is None or stored.ranks != ranks or stored.reference_step_us is None:
        raise ToolError(f"no cost model of this machine with {ranks} ranks; run: emplace profile --ranks {ranks}")
    return stored
