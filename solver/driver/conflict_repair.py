"""Tables that may share no device. The program doesn't know it: where its best assignment breaks it, devices are dealt out.

Leaving a constraint out only adds placements, so bound and proof of the program without it hold for the one with it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from emplace.solver.engine import solve
from emplace.solver.heuristics.greedy import pack
from emplace.solver.model.conflicts import Groups, devices_held, keeps_apart
from emplace.solver.model.problem import Assignment, Bools, Problem, loads_of
from emplace.solver.result import Limits, Outcome, Progress, ReportProgress, ShouldStop, StoppedBy, gap_of

UNRESTRICTED_SHARE = 0.5
"""Of the limit, for the program that doesn't know of groups; it has the bound."""


def solve_apart(
    problem: Problem, groups: Groups, limits: Limits, report: ReportProgress | None = None, should_stop: ShouldStop | None = None
) -> Outcome:
    """`solve`, with an assignment that keeps the groups apart or none."""
    if not groups:
        return solve(problem, limits, report, should_stop)
    first = solve(problem, replace(limits, seconds=limits.seconds * UNRESTRICTED_SHARE), _bounds_only(report), should_stop)
    if first.assignment is None or keeps_apart(problem, groups, first.assignment):
        return first
    rest = replace(limits, seconds=limits.seconds * (1 - UNRESTRICTED_SHARE))
    second = solve(dealt_out(problem, groups, first.assignment), rest, _below(report, first.lower_bound_us), should_stop)
    stopped_by = StoppedBy.CANCELLED if StoppedBy.CANCELLED in (first.stopped_by, second.stopped_by) else StoppedBy.LIMIT
    bound, moves = f"{first.bound}, without keeping tables apart", first.moves + second.moves
    if second.assignment is None:
        return Outcome(None, math.inf, first.lower_bound_us, bound, stopped_by, moves)
    if gap_of(second.objective_us, first.lower_bound_us) <= limits.gap:
        stopped_by = StoppedBy.GAP
    return Outcome(second.assignment, second.objective_us, min(first.lower_bound_us, second.objective_us), bound, stopped_by, moves)


def _bounds_only(report: ReportProgress | None) -> ReportProgress | None:
    """A plan that may break the groups is no incumbent."""
    return None if report is None else lambda progress: report(replace(progress, incumbent_us=None, gap=None))


def _below(report: ReportProgress | None, bound_us: float) -> ReportProgress | None:
    """With the bound of every placement, not only of those that devices were dealt out for."""

    def passed_on(progress: Progress) -> None:
        known = progress.incumbent_us
        if report is not None:
            report(replace(progress, bound_us=bound_us, gap=None if known is None else gap_of(known, bound_us)))

    return None if report is None else passed_on


def pack_apart(problem: Problem, groups: Groups) -> Assignment | None:
    """`pack`, likewise."""
    first = pack(problem)
    if first is None or keeps_apart(problem, groups, first):
        return first
    return pack(dealt_out(problem, groups, first))


def dealt_out(problem: Problem, groups: Groups, assignment: Assignment) -> Problem:
    """The same, with devices of its own for each table of a group: one to begin with, for the table with the fewest left to
    choose from first; then more of those that it has in `assignment`; what is left over is dealt out in turn."""
    members = list(dict.fromkeys(table for group in groups for table in group))
    others = {table: sorted({other for group in groups if table in group for other in group} - {table}) for table in members}
    may = np.ones((problem.num_tables, problem.num_devices), dtype=bool) if problem.allowed is None else problem.allowed
    own = np.zeros_like(may)
    load = loads_of(problem, assignment).time_us.sum(axis=1)
    covered = {table: devices_held(problem, assignment, table) for table in members}
    for table in members:
        load[covered[table]] -= _share(problem, assignment, table)

    def is_open(table: int) -> Bools:
        return np.asarray(may[table] & ~own[table] & ~own[others[table]].any(axis=0))

    left = set(members)
    while left:
        table = min(left, key=lambda each: (int(is_open(each).sum()), -len(others[each]), each))
        left.remove(table)
        free = np.flatnonzero(is_open(table))
        other_kind = problem.device_kind[free] != problem.device_kind[covered[table][0]]
        first = free[np.lexsort((load[free], other_kind, ~np.isin(free, covered[table])))][:1]
        own[table, first] = True
        load[first] += _share(problem, assignment, table)
    for table in members:
        more = covered[table][is_open(table)[covered[table]]]
        own[table, more] = True
        load[more] += _share(problem, assignment, table)
    for device in np.argsort(load, kind="stable"):
        for table in sorted(members, key=lambda each: (int(own[each].sum()), each)):
            own[table, device] |= is_open(table)[device]
    allowed = may.copy()
    allowed[members] = own[members]
    return replace(problem, allowed=allowed)


def _share(problem: Problem, assignment: Assignment, table: int) -> float:
    """About what a table adds to each of its devices."""
    return float(problem.unit_time_us[problem.option_first_unit[assignment.option[table]]].sum(axis=1).max())
