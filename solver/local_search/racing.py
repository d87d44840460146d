"""Several searches of one problem that share a budget: restarts where there is time for them, else a race whose leader goes on."""

from __future__ import annotations

from collections.abc import Iterator

from emplace.solver.budget import RACING_SHARE, SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.local_search.search import Found, Search
from emplace.solver.model.problem import Problem
from emplace.solver.relaxation.bound import Bound, Bounder

RESTART_WORK = 5.5e5
"""Work per table of one search, where there is time for several: from nothing they find better plans than a long one does
(30 tables on 16 devices, 127 on 64)."""
RACERS = 5
"""So many searches race where there are several stages: how much one finds depends on how its tables met their nodes, and soon shows."""


def race(problem: Problem, bounder: Bounder, bound: Bound, budget: Budget) -> Iterator[Search]:
    """The search that has just done a chunk of its share; what is not shared, the best one gets besides."""
    work = budget.seconds * SEARCH_WORK_PER_SECOND
    number = max(1, round(work / (RESTART_WORK * problem.num_tables)))
    share = work / number
    if problem.num_stages > 1 and number < RACERS:
        number, share = RACERS, work * RACING_SHARE
    leader: tuple[Search, Iterator[Found]] | None = None
    for index in range(number):
        search = Search(problem, bounder, bound, budget.seed * number + index)
        steps = search.run(budget.gap, work - (number - 1) * share)
        for found in steps:
            yield search
            if found.work >= share:
                break
        if leader is None or search.best.objective_us < leader[0].best.objective_us:
            leader = search, steps
    if leader is not None:
        for _ in leader[1]:
            yield leader[0]
