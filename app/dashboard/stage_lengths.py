"""How long each stage of a plan lasts."""

from __future__ import annotations

import numpy as np

from emplace.placement.plan import Plan
from emplace.placement.stages import Stage, stage_lengths_us


def stage_lengths(plan: Plan) -> dict[Stage, float]:
    """Microseconds, of stages without any work 0."""
    loads_us = np.array([[rank.stages_us.get(stage, 0.0) for stage in Stage] for rank in plan.ranks])
    return dict(zip(Stage, stage_lengths_us(loads_us, plan.question.cost_model).tolist(), strict=True))
