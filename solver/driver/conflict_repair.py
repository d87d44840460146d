"""Tables that may share no device. The program doesn't know it: where its best assignment breaks it, devices are dealt out.

Leaving a constraint out only adds placements, so bound and proof of the program without it hold for the one with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emplace.solver.model.conflicts import Groups, devices_held
from emplace.solver.model.problem import Assignment, Bools, Problem, loads_of


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
