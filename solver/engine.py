"""One problem solved: bound, then search, then exactly where the size allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from emplace.solver.local_search.search import Found, Search
from emplace.solver.model.problem import Assignment, Problem, Scope, loads_of, objective_us
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.progress import Watch
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import MET, Limits, Outcome, ReportProgress, ShouldStop, StoppedBy, gap_of

WORK_PER_SECOND = 7e6
"""Of each lane of the search: about what one core does on a small server, so that a limit in seconds is about kept."""
EXACT_CHOICES = 30_000
"""The most choices (options x targets) for which the exact program is tried."""
FEW_TABLES, MOST_TABLES = 5, 500
"""Per device, and of all: where there are more, looking near a plan found nothing that the search had not, or is slow."""
SEARCH_SHARES = {(True, True): 0.2, (True, False): 0.35, (False, True): 0.5}
"""Of the limit, by whether tables are few and choices are."""
SEARCH_SECONDS = 2.0
"""For the search, or half the limit: before that plans get better fast."""
RESTART_WORK = 5.5e5
"""Per table, of one search where there is time for several: from nothing they find better plans than a long one does
(30 tables on 16 devices, 127 on 64)."""
AUDITIONS, AUDITION_SHARE = 5, 0.1
"""Where there are several stages: how much a search finds depends on how its tables met their nodes, and soon shows. So many
begin, each with this share of the limit, and the best goes on with the rest."""


def solve(problem: Problem, limits: Limits, report: ReportProgress | None = None, should_stop: ShouldStop | None = None) -> Outcome:
    """The best assignment found within `limits` and a bound on every assignment; PROOF where there is none.

    The same problem, limits and seed give the same answer, whatever the machine does besides.
    """
    watch = Watch(report, should_stop)
    problem = merge_stages(problem)
    if problem.num_tables == 0:
        nothing = Assignment(np.empty(0, dtype=np.int64), ())
        value = objective_us(problem, loads_of(problem, nothing))
        return Outcome(nothing, value, value, "no tables", StoppedBy.EXACT)
    bounder = Bounder(problem)
    bound = bounder.bound()
    watch.report(math.inf, bound.value_us, "bound")
    if not bound.feasible:
        return Outcome(None, math.inf, math.inf, bound.name, StoppedBy.PROOF)
    small = choices(problem) <= EXACT_CHOICES
    few = problem.num_tables <= min(FEW_TABLES * problem.num_devices, MOST_TABLES)
    search_s = search_seconds(limits.seconds, few, small)
    best = _search(problem, bounder, bound, replace(limits, seconds=search_s), watch)
    if not (few or small) or best.stopped_by is not StoppedBy.LIMIT:
        return best
    from emplace.solver.finish import finish  # imports OR-Tools, and with it pandas: most of what `emplace check` would take to start

    return finish(problem, bounder, bound, best, replace(limits, seconds=limits.seconds - search_s), watch, is_small=small)


def search_seconds(seconds: float, few: bool, small: bool) -> float:
    """Of the limit; the rest is for `finish`."""
    share = SEARCH_SHARES.get((few, small), 1.0)
    return max(seconds * share, min(SEARCH_SECONDS, seconds / 2)) if share < 1 else seconds


def choices(problem: Problem) -> int:
    """How many option-and-target pairs there are."""
    nodes = len(np.unique(problem.device_node[problem.device_is_trainer]))
    by_kind = np.bincount(problem.device_kind, minlength=problem.num_kinds)
    targets = np.where(
        problem.option_scope == Scope.DEVICE, by_kind[problem.option_kind], np.where(problem.option_scope == Scope.NODE, nodes, 1)
    )
    return int((targets * np.diff(problem.option_first_unit)).sum())


def _search(problem: Problem, bounder: Bounder, bound: Bound, limits: Limits, watch: Watch) -> Outcome:
    """The best of some searches that share the seconds."""
    best, moves, stopped_by = Found(None, math.inf, 0.0, 0), {}, StoppedBy.LIMIT
    for search in _turns(problem, bounder, bound, limits):
        best, moves[search.seed] = min(best, search.best, key=lambda each: each.objective_us), search.best.moves
        watch.report(best.objective_us, bound.value_us, "search")
        if best.assignment is not None and gap_of(best.objective_us, bound.value_us) <= max(limits.gap, MET):
            stopped_by = StoppedBy.GAP
        elif watch.stopped():
            stopped_by = StoppedBy.CANCELLED
        if stopped_by is not StoppedBy.LIMIT:
            break
    value_us = min(bound.value_us, best.objective_us)
    return Outcome(best.assignment, best.objective_us, value_us, bound.name, stopped_by, sum(moves.values()))


def _turns(problem: Problem, bounder: Bounder, bound: Bound, limits: Limits) -> Iterator[Search]:
    """The search that has just done a chunk of its share of the seconds; what is not shared, the best one gets besides."""
    work = limits.seconds * WORK_PER_SECOND
    number = max(1, round(work / (RESTART_WORK * problem.num_tables)))
    share = work / number
    if problem.num_stages > 1 and number < AUDITIONS:
        number, share = AUDITIONS, work * AUDITION_SHARE
    leader: tuple[Search, Iterator[Found]] | None = None
    for index in range(number):
        search = Search(problem, bounder, bound, limits.seed * number + index)
        steps = search.run(limits.gap, work - (number - 1) * share)
        for found in steps:
            yield search
            if found.work >= share:
                break
        if leader is None or search.best.objective_us < leader[0].best.objective_us:
            leader = search, steps
    if leader is not None:
        for _ in leader[1]:
            yield leader[0]
