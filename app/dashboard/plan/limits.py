"""What limits a plan's step: the stages and whom they wait for, the tables that cost most, and what no placement changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emplace.app.dashboard.charts.stage_titles import STAGE_TITLES
from emplace.app.dashboard.loaded import LoadedPlan
from emplace.app.dashboard.units import time_unit
from emplace.app.diff import describe_ranks
from emplace.placement.beside_stages import beside_stages_us, waits_for
from emplace.placement.diagnosis import HardwareChange, StageCost, TableCost
from emplace.placement.stages import Stage

_NAMED = 4
_NOTABLE = 0.01
"""Share of a step from which on a wait is worth a sentence."""
_WAITS = {
    "launches": "The process needs {} to launch a step, whatever the placement",
    "input": "The input of a step needs {} to arrive, whatever the placement",
    "network": "Input and exchanges need {} to arrive over the network",
}


@dataclass(frozen=True)
class StageLine:
    key: str
    title: str
    time_us: float
    share: float
    mean_us: float
    waits_for: str


@dataclass(frozen=True)
class Limits:
    """`changes` are of a plan that was asked to be explained."""

    sentences: tuple[str, ...]
    stages: tuple[StageLine, ...]
    tables: tuple[TableCost, ...]
    changes: tuple[HardwareChange, ...]


def limits(loaded: LoadedPlan) -> Limits:
    diagnosis, plan = loaded.diagnosis, loaded.plan
    stages = tuple(
        StageLine(each.stage.value, STAGE_TITLES[each.stage], each.time_us, each.share, each.mean_us, _waits_for(each, loaded))
        for each in diagnosis.stages
    )
    asked = () if plan.diagnosis is None else plan.diagnosis.changes
    return Limits(tuple(_sentences(loaded)), stages, diagnosis.tables[:_NAMED], asked)


def _sentences(loaded: LoadedPlan) -> Iterator[str]:
    plan, diagnosis = loaded.plan, loaded.diagnosis
    step_us = plan.step_time_us or 1.0
    unit = time_unit([step_us])
    decided_us = max(0.0, step_us - diagnosis.constant_us)
    if name := waits_for(plan):
        waited = unit.show(beside_stages_us(plan))
        yield f"{_WAITS[name].format(unit.show(step_us))}: devices wait {waited} of it."
        return
    yield (
        f"Where tables are placed decides {unit.show(decided_us)} ({decided_us / step_us:.0%}) of the step; the other "
        f"{unit.show(step_us - decided_us)} are dense layers, their all-reduce and overhead, the same in every plan."
    )
    uneven = sorted(diagnosis.stages, key=lambda each: each.mean_us - each.time_us)
    for stage in uneven[:2]:
        idle_us = stage.time_us - stage.mean_us
        if idle_us > _NOTABLE * step_us:
            yield (
                f"{STAGE_TITLES[stage.stage].capitalize()} lasts {unit.show(stage.time_us)} because of {_waits_for(stage, loaded)}; "
                f"the mean rank needs {unit.show(stage.mean_us)}, so ranks wait {unit.show(idle_us)} on average."
            )
    if diagnosis.tables and diagnosis.tables[0].time_us > _NOTABLE * step_us:
        first = diagnosis.tables[0]
        yield f"The table {first.name} costs most: {unit.show(first.time_us)} of the step, {unit.show(first.saved_us)} of which would be saved without it."
    fullest = max((rank.hbm_bytes / rank.hbm_capacity_bytes for rank in plan.ranks if rank.hbm_capacity_bytes), default=0.0)
    if fullest > 0.97:
        yield f"The fullest device memory is {fullest:.0%} full: more memory may let hot tables move closer."


def _waits_for(stage: StageCost, loaded: LoadedPlan) -> str:
    everyone = loaded.plan.num_trainers if stage.stage is Stage.DENSE else len(loaded.plan.ranks)
    if len(stage.slowest_ranks) == everyone:
        return "all ranks alike"
    if len(stage.slowest_ranks) > _NAMED:
        return f"{describe_ranks(stage.slowest_ranks[:_NAMED])} and {len(stage.slowest_ranks) - _NAMED} more"
    return describe_ranks(stage.slowest_ranks)
