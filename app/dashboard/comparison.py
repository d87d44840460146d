"""Predicted beside measured, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

from app.dashboard.charts import STAGE_TITLES
from placement.measurement import Measurement
from placement.plan import Plan
from placement.stages import Stage


@dataclass(frozen=True)
class StageComparison:
    """The slowest rank's microseconds in a stage, as predicted and as measured."""

    title: str
    predicted_us: float
    measured_us: float | None


def compare_stages(plan: Plan, measurement: Measurement) -> list[StageComparison]:
    """The stages in the order of a step; those that neither knows are left out."""
    rows = []
    for stage in Stage:
        predicted = max((rank.stages_us.get(stage, 0.0) for rank in plan.ranks), default=0.0)
        measured = [rank.stages_us[stage] for rank in measurement.ranks if stage in rank.stages_us]
        if predicted or measured:
            rows.append(StageComparison(STAGE_TITLES[stage], predicted, max(measured, default=None)))
    return rows
