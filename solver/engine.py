"""One problem solved: bound, then local search, then plan and bound brought together where the size allows."""

from __future__ import annotations

import math

import numpy as np

from emplace.solver.budget import SEARCH_SECONDS, SEARCH_SHARES, SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.local_search.racing import race
from emplace.solver.local_search.search import Found
from emplace.solver.model.problem import Assignment, Problem, Scope, loads_of, objective_us
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import Limit, Result, gap_of

SMALL_CHOICES = 30_000
"""A problem with at most so many choices (options x targets) is small: the exact program is tried."""
FEW_TABLES_PER_DEVICE, FEW_TABLES = 5, 500
"""Tables are few up to so many per device, and in all: where there are more, placing parts of a plan anew found nothing that the
search had not, or is slow."""


def solve(problem: Problem, budget: Budget, monitor: Monitor | None = None) -> Result[Assignment]:
    """The best assignment found within the budget and a bound on every assignment.

    The same problem and budget give the same answer, whatever the machine does besides.
    """
    monitor = monitor or Monitor()
    problem = merge_stages(problem)
    if problem.num_tables == 0:
        nothing = Assignment(np.empty(0, dtype=np.int64), ())
        value_us = objective_us(problem, loads_of(problem, nothing))
        return Result(nothing, value_us, value_us, "no tables", Limit.NONE)
    bounder = Bounder(problem)
    bound = bounder.bound()
    monitor.tell(math.inf, bound.value_us, "bound")
    if not bound.feasible:
        return Result.infeasible(bound.name)
    is_small = choices(problem) <= SMALL_CHOICES
    has_few = problem.num_tables <= min(FEW_TABLES_PER_DEVICE * problem.num_devices, FEW_TABLES)
    search_s = search_seconds(budget.seconds, has_few, is_small)
    best = _searched(problem, bounder, bound, budget.of(search_s), monitor)
    if not (has_few or is_small) or best.limit is not Limit.WORK:
        return best
    from emplace.solver.close_gap import close_gap  # imports OR-Tools, and with it pandas: most of what `emplace check` would take to start

    return close_gap(problem, bounder, bound, best, budget.of(budget.seconds - search_s), monitor, is_small=is_small)


def search_seconds(seconds: float, has_few: bool, is_small: bool) -> float:
    """The seconds of the local search out of those of the limit; the rest is for `close_gap`."""
    share = SEARCH_SHARES.get((has_few, is_small), 1.0)
    return max(seconds * share, min(SEARCH_SECONDS, seconds / 2)) if share < 1 else seconds


def choices(problem: Problem) -> int:
    """The number of pairs of an option and a target of one of its units."""
    nodes = len(np.unique(problem.device_node[problem.device_is_trainer]))
    by_kind = np.bincount(problem.device_kind, minlength=problem.num_kinds)
    targets = np.where(
        problem.option_scope == Scope.DEVICE, by_kind[problem.option_kind], np.where(problem.option_scope == Scope.NODE, nodes, 1)
    )
    return int((targets * np.diff(problem.option_first_unit)).sum())


def _searched(problem: Problem, bounder: Bounder, bound: Bound, budget: Budget, monitor: Monitor) -> Result[Assignment]:
    """The best assignment that local search finds."""
    best, limit = Found(None, math.inf, 0.0, 0), Limit.WORK
    latest: dict[int, Found] = {}
    for search in race(problem, bounder, bound, budget):
        best, latest[search.seed] = min(best, search.best, key=lambda each: each.objective_us), search.best
        monitor.tell(best.objective_us, bound.value_us, "search")
        if best.assignment is not None and gap_of(best.objective_us, bound.value_us) <= budget.enough:
            limit = Limit.GAP
        elif monitor.stopped():
            limit = Limit.INTERRUPTED
        if limit is not Limit.WORK:
            break
    bound_us = min(bound.value_us, best.objective_us)
    moves, counted_s = sum(each.moves for each in latest.values()), sum(each.work for each in latest.values()) / SEARCH_WORK_PER_SECOND
    return Result(best.assignment, best.objective_us, bound_us, bound.name, limit, moves, counted_s)
