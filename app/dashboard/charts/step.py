"""A predicted step as it passes: stages one after the other, each as long as its slowest rank, and who waits in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.app.dashboard.charts.ranks import rank_label, shown_ranks
from emplace.app.dashboard.charts.stage_titles import OVERHEAD, STAGE_TITLES
from emplace.placement.beside_stages import beside_stages_us, waits_for
from emplace.placement.plan import Plan
from emplace.placement.stages import Stage, stage_lengths_us


@dataclass(frozen=True)
class StageSpan:
    """From `start_us` to `end_us` all ranks are in this stage; `slowest` is the rank that they wait for. `key` names the colour."""

    key: str
    title: str
    start_us: float
    end_us: float
    slowest: int | None = None

    @property
    def length_us(self) -> float:
        return self.end_us - self.start_us


@dataclass(frozen=True)
class RankTime:
    """How long a rank works in each stage, and waits in all of them together."""

    rank: int
    label: str
    work_us: tuple[float, ...]
    own_us: float
    waits_us: float


@dataclass(frozen=True)
class StepChart:
    """Spans add up to `step_us`, the predicted step. `bound_us` is what no plan is faster than; `awaited` is what devices wait
    for, if for anything (placement.beside_stages.waits_for)."""

    spans: tuple[StageSpan, ...]
    ranks: tuple[RankTime, ...]
    step_us: float
    bound_us: float | None
    left_out: int
    awaited: str = ""


def step_chart(plan: Plan, *, by_load: bool = False) -> StepChart:
    """Ranks by number, or by their own work, the busiest first; of very many, the busiest and the most idle."""
    stages = [stage for stage in Stage if any(rank.stages_us.get(stage) for rank in plan.ranks)]
    loads_us = np.array([[rank.stages_us.get(stage, 0.0) for stage in stages] for rank in plan.ranks])
    lengths_us = stage_lengths_us(loads_us, plan.question.cost_model)
    spans = _spans(stages, lengths_us.tolist(), loads_us.argmax(axis=0).tolist())
    beside_us, name = beside_stages_us(plan), waits_for(plan)
    if beside_us > 0:
        title = f"waiting for {name}" if name else OVERHEAD
        end_us = spans[-1].end_us if spans else 0.0
        spans.append(StageSpan(OVERHEAD, title, end_us, end_us + beside_us))
    order = shown_ranks([rank.step_time_us for rank in plan.ranks], by_load=by_load)
    own_us = loads_us.sum(axis=1)
    worked_us = np.minimum(loads_us, lengths_us)  # ranks that share cores may need longer than a stage lasts
    ranks = tuple(
        RankTime(
            rank=plan.ranks[index].rank,
            label=rank_label(plan.ranks[index]),
            work_us=tuple(worked_us[index].tolist()),
            own_us=float(own_us[index]),
            waits_us=float((lengths_us - worked_us[index]).sum()),
        )
        for index in order
    )
    return StepChart(tuple(spans), ranks, plan.step_time_us or 0.0, plan.lower_bound_us or None, len(plan.ranks) - len(order), name)


def _spans(stages: list[Stage], lengths_us: list[float], slowest: list[int]) -> list[StageSpan]:
    spans, start_us = [], 0.0
    for stage, length_us, rank in zip(stages, lengths_us, slowest, strict=True):
        spans.append(StageSpan(stage.value, STAGE_TITLES[stage], start_us, start_us + length_us, rank))
        start_us += length_us
    return spans
