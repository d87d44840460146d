"""What a step lasts beyond its stages, and what for."""

from __future__ import annotations

import numpy as np

from emplace.placement.plan import Plan
from emplace.placement.stages import Stage, stage_lengths_us

_ROUNDING = 1e-6


def beside_stages_us(plan: Plan) -> float:
    """Microseconds of a plan's step in which no stage is worked on: its overhead, and where launches take longest, waiting for them."""
    loads_us = np.array([[rank.stages_us.get(stage, 0.0) for stage in Stage] for rank in plan.ranks])
    return max(0.0, (plan.step_time_us or 0.0) - float(stage_lengths_us(loads_us, plan.question.cost_model).sum()))


def waits_for(plan: Plan) -> str:
    """What devices wait for where the step is as long as it takes: "launches", "input" or "network", on which input and
    exchanges arrive; "" where they wait for nothing."""
    cost, model, step_us = plan.question.cost_model, plan.sized_question.model, plan.step_time_us or 0.0
    floor = cost.floor(model, {table.sharding_type for table in plan.tables})
    if floor.time_us >= step_us > 0:
        return floor.name
    return "network" if beside_stages_us(plan) > cost.step_overhead_us + _ROUNDING * step_us else ""
