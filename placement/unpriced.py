"""Questions whose steps have no price."""

from __future__ import annotations

from emplace.placement.cost_model import CostModel
from emplace.placement.dense_part import dense_part
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.topology import Topology

LEAST_STEP_US = 1e-3
"""What a step without tables takes at least."""


def refuse_unpriced(cost: CostModel, model: ModelSpec, topology: Topology) -> None:
    """Raises InvalidDocument for trainers whose dense layers have no price, and where a step without tables takes no time: where they cost
    nothing either, throughput would have no end."""
    dense = {each.device: each for each in cost.dense}
    devices = dict.fromkeys(rank.device for rank in topology.trainers)
    if missing := ", ".join(device for device in devices if device not in dense):
        raise InvalidDocument("cost_model", [BrokenRule("/dense", "", f"has no dense layers for {missing}")])
    dense_us = [dense[device].time_us(dense_part(model), model.local_batch_size, model.num_features) for device in devices]
    if max(cost.step_overhead_us, 0.0 if cost.launches is None else cost.launches.fixed_us, *dense_us) < LEAST_STEP_US:
        rule = f"must be at least {LEAST_STEP_US} us where launches and dense layers cost nothing: no step takes no time"
        raise InvalidDocument("cost_model", [BrokenRule("/step_overhead_us", f"{cost.step_overhead_us}", rule)])
