"""What a step lasts beyond its stages."""

from __future__ import annotations

import numpy as np

from emplace.placement.plan import Plan
from emplace.placement.stages import Stage, stage_lengths_us


def beside_stages_us(plan: Plan) -> float:
    """Microseconds of a plan's step in which no stage is worked on: its overhead, and where launches take longest, waiting for them."""
    loads_us = np.array([[rank.stages_us.get(stage, 0.0) for stage in Stage] for rank in plan.ranks])
    return max(0.0, (plan.step_time_us or 0.0) - float(stage_lengths_us(loads_us, plan.question.cost_model).sum()))
