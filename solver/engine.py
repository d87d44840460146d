"""One problem solved: bound, then search, then exactly where the size allows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from solver.bound import Bound, Bounder
from solver.outcome import Limits, Outcome, Progress, ReportProgress, ShouldStop, StoppedBy
from solver.presolve import merge_stages
from solver.problem import Assignment, Problem, Scope, loads_of, objective_us
from solver.search import MET, Found, Search

WORK_PER_SECOND = 7e6
"""Of each lane of the search: about what one core does on a small server, so that a limit in seconds is about kept."""
EXACT_CHOICES = 30_000
"""The most choices (options x targets) for which the exact program is tried."""
FEW_TABLES, MOST_TABLES = 5, 500
"""Per device, and of all: where there are more, looking near a plan found nothing that the search had not, or is slow."""
EXACT_SHARE, NEARBY_SHARE = 0.5, 0.25
"""Of the limit, where they follow the search; the search takes the rest."""
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
    watch = _Watch(report, should_stop)
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
    exact_s = limits.seconds * EXACT_SHARE if small else 0.0
    nearby_s = limits.seconds * NEARBY_SHARE if few else 0.0
    best = _search(problem, bounder, bound, replace(limits, seconds=limits.seconds - exact_s - nearby_s), watch)
    if small and best.stopped_by is StoppedBy.LIMIT:
        best = _settle(problem, bounder, bound, best, replace(limits, seconds=exact_s), watch)
    if few and best.stopped_by is StoppedBy.LIMIT:
        best = _look_nearby(problem, bounder, bound, best, replace(limits, seconds=nearby_s), watch)
    return best


def choices(problem: Problem) -> int:
    """How many option-and-target pairs there are."""
    nodes = len(np.unique(problem.device_node[problem.device_is_trainer]))
    by_kind = np.bincount(problem.device_kind, minlength=problem.num_kinds)
    targets = np.where(
        problem.option_scope == Scope.DEVICE, by_kind[problem.option_kind], np.where(problem.option_scope == Scope.NODE, nodes, 1)
    )
    return int((targets * np.diff(problem.option_first_unit)).sum())


def _search(problem: Problem, bounder: Bounder, bound: Bound, limits: Limits, watch: _Watch) -> Outcome:
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


def _settle(problem: Problem, bounder: Bounder, bound: Bound, found: Outcome, limits: Limits, watch: _Watch) -> Outcome:
    """Give what the search found to the exact program; the better plan and the higher bound of both count."""
    from solver.exact import solve_exactly  # imports OR-Tools, and with it pandas: most of what `emplace check` would take to start

    exact = solve_exactly(problem, bounder, bound, limits, watch.relay(found), watch.should_stop, found.assignment)
    if exact.stopped_by is StoppedBy.PROOF and found.assignment is None:
        return exact
    better = exact if exact.objective_us < found.objective_us else found
    value_us = max(exact.lower_bound_us if math.isfinite(exact.lower_bound_us) else -math.inf, found.lower_bound_us)
    name = exact.bound if value_us > found.lower_bound_us else found.bound
    settled = better.assignment is not None and gap_of(better.objective_us, value_us) <= limits.gap
    stopped_by = StoppedBy.GAP if settled and exact.stopped_by is not StoppedBy.EXACT else exact.stopped_by
    return Outcome(better.assignment, better.objective_us, min(value_us, better.objective_us), name, stopped_by, found.moves)


def _look_nearby(problem: Problem, bounder: Bounder, bound: Bound, found: Outcome, limits: Limits, watch: _Watch) -> Outcome:
    """Tries to better the plan that was found."""
    from solver.nearby import Nearby  # imports OR-Tools: see `_settle`

    nearby, best, met = Nearby(problem, bounder, bound, limits.seed, watch.should_stop), found, False
    while best.assignment is not None and nearby.counted_s < limits.seconds and not met and not watch.stopped():
        plan = nearby.improve(best.assignment, limits.seconds - nearby.counted_s)
        if plan is not None:
            best = replace(best, assignment=plan, objective_us=objective_us(problem, loads_of(problem, plan)))
            met = gap_of(best.objective_us, best.lower_bound_us) <= max(limits.gap, MET)
            watch.report(best.objective_us, best.lower_bound_us, "search")
    stopped_by = StoppedBy.GAP if met else StoppedBy.CANCELLED if watch.stopped() else StoppedBy.LIMIT
    return replace(best, lower_bound_us=min(best.lower_bound_us, best.objective_us), stopped_by=stopped_by)


def gap_of(objective_us: float, bound_us: float) -> float:
    """How much less the best placement might take, as a share of this one."""
    return max(0.0, 1.0 - bound_us / objective_us) if objective_us > 0 else 0.0


class _Watch:
    """Passes progress on and asks whether to stop."""

    def __init__(self, report: ReportProgress | None, should_stop: ShouldStop | None) -> None:
        self._report, self.should_stop = report, should_stop
        self._started = time.perf_counter()

    def report(self, objective_us: float, bound_us: float, phase: str) -> None:
        if self._report is not None:
            known = math.isfinite(objective_us)
            gap = gap_of(objective_us, bound_us) if known else None
            self._report(Progress(time.perf_counter() - self._started, objective_us if known else None, bound_us, gap, phase))

    def stopped(self) -> bool:
        return self.should_stop is not None and self.should_stop()

    def relay(self, found: Outcome) -> ReportProgress:
        """For a later phase that starts from `found`: progress never falls behind it."""

        def passed_on(progress: Progress) -> None:
            incumbent = min(progress.incumbent_us if progress.incumbent_us is not None else math.inf, found.objective_us)
            self.report(incumbent, max(progress.bound_us, found.lower_bound_us), progress.phase)

        return passed_on
