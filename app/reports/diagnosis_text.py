"""Why a plan is no faster, as text: what its step is made of, which tables cost most, what more hardware would bring."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emplace.app.diff import describe_ranks
from emplace.app.reports.figures import microseconds, percent
from emplace.app.reports.tables import plain_table, section
from emplace.placement.beside_stages import beside_stages_us
from emplace.placement.diagnosis import Diagnosis, HardwareChange, StageCost
from emplace.placement.plan import Plan
from emplace.placement.stages import Stage

_MAX_SHOWN_RANKS = 4


def diagnosis_view(plan: Plan, diagnosis: Diagnosis) -> RenderableType:
    """After everything else that a plan says."""
    parts = [_summary(plan, diagnosis), _stages(plan, diagnosis), _tables(diagnosis), _changes(plan, diagnosis)]
    return Group(*parts, Text("\n".join([*(f"note: {note}" for note in diagnosis.notes), ""])))


def _summary(plan: Plan, diagnosis: Diagnosis) -> RenderableType:
    step_us = plan.step_time_us or 0.0
    uneven = _by_imbalance(diagnosis)
    idle_us = sum(map(imbalance_us, uneven))
    most = ", ".join(f"{microseconds(imbalance_us(each))} in {each.stage}" for each in uneven[:3])
    table = Table.grid(padding=(0, 3))
    for row in (
        ("no placement changes", f"{_of(diagnosis.constant_us, step_us)}   overhead, dense layers and their all-reduce"),
        (
            "placement decides",
            f"{_of(step_us - diagnosis.constant_us, step_us)}   at most {percent(plan.placement_gap)} of it could be saved",
        ),
        ("imbalance", f"{_of(idle_us, step_us)}   slowest ranks beyond the mean{f': {most}' if most else ''}"),
    ):
        table.add_row(*row)
    return section(f"why the step takes {microseconds(step_us)} and no less", table)


def imbalance_us(stage: StageCost) -> float:
    """What a stage lasts beyond the mean of its ranks."""
    return max(0.0, stage.time_us - stage.mean_us)


def _by_imbalance(diagnosis: Diagnosis) -> list[StageCost]:
    """Stages that are uneven by more than rounding, the dearest first."""
    uneven = [each for each in diagnosis.stages if imbalance_us(each) > 1e-6 * each.time_us]
    return sorted(uneven, key=lambda each: -imbalance_us(each))


def _stages(plan: Plan, diagnosis: Diagnosis) -> RenderableType:
    table = plain_table("stage", "slowest ranks", "lasts", "of the step", "mean rank", "imbalance", left=2)
    for each in diagnosis.stages:
        of_mean = (microseconds(each.mean_us), microseconds(imbalance_us(each)))
        table.add_row(each.stage, _ranks(each, plan), microseconds(each.time_us), percent(each.share), *of_mean)
    overhead_us = beside_stages_us(plan)
    table.add_row("overhead", "", microseconds(overhead_us), percent(overhead_us / (plan.step_time_us or 1.0)), "", "")
    return section("which stages and ranks bind", table)


def _ranks(stage: StageCost, plan: Plan) -> str:
    ranks = stage.slowest_ranks
    everyone = plan.num_trainers if stage.stage is Stage.DENSE else len(plan.ranks)
    if len(ranks) == everyone:
        return "all alike"
    if len(ranks) > _MAX_SHOWN_RANKS:
        return f"{describe_ranks(ranks[:_MAX_SHOWN_RANKS])} and {len(ranks) - _MAX_SHOWN_RANKS} more"
    return describe_ranks(ranks)


def _tables(diagnosis: Diagnosis) -> RenderableType:
    table = plain_table("table", "most of it in", "on slowest ranks", "of the step", "on the mean rank", "saved without it", left=2)
    for each in diagnosis.tables:
        most = max(each.stages_us, key=lambda stage: each.stages_us[stage], default=None)
        times = (microseconds(each.time_us), percent(each.share), microseconds(each.mean_us), microseconds(each.saved_us))
        table.add_row(each.name, most or "-", *times)
    return section("which tables cost most", table)


def _changes(plan: Plan, diagnosis: Diagnosis) -> RenderableType:
    if not diagnosis.changes:
        return section("what more hardware would bring", Text("nothing can be added"))
    table = plain_table("change", "step, estimated", "solved anew", "its bound", "throughput")
    for each in diagnosis.changes:
        table.add_row(each.change, *_outcome(each, plan))
    said = "estimated at the bound's dual prices; solved anew within the same limit; shares of this step, below zero is faster"
    return section("what more hardware would bring", Group(table, Text(said, style="dim")))


def _outcome(change: HardwareChange, plan: Plan) -> Sequence[str]:
    step_us, bound_us = plan.step_time_us or 1.0, plan.lower_bound_us
    estimated = _moved(change.estimated_us, step_us)
    if change.step_time_us is None:
        return estimated, _why_none(change), "-", "-"
    moved_us = None if bound_us is None or change.lower_bound_us is None else change.lower_bound_us - bound_us
    return estimated, _moved(change.step_time_us - step_us, step_us), _moved(moved_us, step_us), _throughput(change, plan)


def _why_none(change: HardwareChange) -> str:
    if change.fits is False:
        return "does not fit"
    return "not solved" if change.lower_bound_us is None else "undecided"


def _moved(moved: float | None, whole: float) -> str:
    """As a share: `-0.73%`, which is faster."""
    if moved is None:
        return "-"
    text = f"{moved / whole:+.2%}"
    return "0" if text in ("+0.00%", "-0.00%") else text


def _throughput(change: HardwareChange, plan: Plan) -> str:
    now, then = plan.throughput_samples_per_s or 1.0, change.throughput_samples_per_s
    return _moved(None if then is None else then - now, now)


def _of(part_us: float, step_us: float) -> str:
    return f"{microseconds(part_us)}, {percent(part_us / step_us)}"
