"""A plan diff as text: the question first, then the placement, then the promise."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.diff import PlanDiff
from emplace.app.reports.figures import count, microseconds, percent, rate
from emplace.app.reports.tables import plain_table, section
from emplace.placement.units import show_gib

_MAX_SHOWN = 40


def diff_view(change: PlanDiff) -> RenderableType:
    return Group(_question(change), _placement(change), _promise(change))


def _question(change: PlanDiff) -> RenderableType:
    if not change.question:
        return Text("question: the same\n")
    rows = [(each.where, each.before or "absent", each.after or "absent") for each in change.question]
    return _rows("question", ("what", "before", "after"), rows)


def _placement(change: PlanDiff) -> RenderableType:
    unchanged = f"{count(change.unchanged_tables, 'table')} unchanged"
    if not change.tables:
        return Text(f"placement: the same, {unchanged}\n")
    rows = [(each.name, each.before or "absent", each.after or "absent", show_gib(each.bytes_to_move)) for each in change.tables]
    title = f"placement: {count(len(rows), 'table')} changed, {unchanged}, {show_gib(change.bytes_to_move)} to move"
    return _rows(title, ("table", "before", "after", "to move"), rows)


def _promise(change: PlanDiff) -> RenderableType:
    before, after = change.before, change.after
    rows = [
        ("status", str(before.status), str(after.status)),
        ("predicted step", microseconds(before.step_time_us), microseconds(after.step_time_us)),
        ("gap", percent(before.gap), percent(after.gap)),
        ("of what placement decides", percent(before.placement_gap), percent(after.placement_gap)),
        ("throughput", rate(before.throughput_samples_per_s), rate(after.throughput_samples_per_s)),
    ]
    title = "promise"
    if before.step_time_us and after.step_time_us:
        title = f"promise: the step takes {after.step_time_us / before.step_time_us - 1:+.2%}"
    return _rows(title, ("", "before", "after"), rows)


def _rows(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> RenderableType:
    table = plain_table(*columns, left=len(columns))
    for row in rows[:_MAX_SHOWN]:
        table.add_row(*row)
    if len(rows) > _MAX_SHOWN:
        table.add_row(f"... and {len(rows) - _MAX_SHOWN} more")
    return section(title, table)
