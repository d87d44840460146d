"""Predicted beside measured, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.app.dashboard.charts import OVERHEAD, STAGE_TITLES
from emplace.placement.beside_stages import beside_stages_us
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan
from emplace.placement.stages import Stage, stage_lengths_us


@dataclass(frozen=True)
class StageComparison:
    """Microseconds that a stage lasts, as predicted and as measured."""

    title: str
    predicted_us: float
    measured_us: float | None


def compare_stages(plan: Plan, measurement: Measurement) -> list[StageComparison]:
    """The stages in the order of a step, then its overhead, which no run measures: predictions add up to the step.

    Stages that neither knows are left out.
    """
    cost_model = plan.question.cost_model
    loads_us = np.array([[rank.stages_us.get(stage, 0.0) for stage in Stage] for rank in plan.ranks])
    rows = []
    for stage, predicted in zip(Stage, stage_lengths_us(loads_us, cost_model).tolist(), strict=True):
        measured = [rank.stages_us[stage] for rank in measurement.ranks if stage in rank.stages_us]
        if predicted or measured:
            rows.append(StageComparison(STAGE_TITLES[stage], predicted, max(measured, default=None)))
    return [*rows, StageComparison(OVERHEAD, beside_stages_us(plan), None)]
