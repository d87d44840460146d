"""One problem solved: bound, then search, then exactly where the size allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
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
SHARES = {(True, True): (0.2, 0.4, 0.3, 0.1), (True, False): (0.35, 0.55, 0.0, 0.1), (False, True): (0.5, 0.0, 0.5, 0.0)}
"""Of the limit, by whether tables are few and choices are: of the search, dives, the exact program and looking nearby."""
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
    search_s, dive_s, exact_s, nearby_s = shares(limits.seconds, few, small)
    best = _search(problem, bounder, bound, replace(limits, seconds=search_s), watch)
    if few and best.stopped_by is StoppedBy.LIMIT:
        best, left_s = _dive(problem, bounder, bound, best, replace(limits, seconds=dive_s), watch)
        nearby_s += left_s / 2
        if small:
            exact_s += left_s / 2
        else:
            best = _search_again(problem, bounder, bound, best, replace(limits, seconds=left_s / 2), watch)
    if small and best.stopped_by is StoppedBy.LIMIT:
        best = _settle(problem, bounder, bound, best, replace(limits, seconds=exact_s), watch)
    if few and best.stopped_by is StoppedBy.LIMIT:
        best = _look_nearby(problem, bounder, bound, best, replace(limits, seconds=nearby_s), watch)
    return best


def shares(seconds: float, few: bool, small: bool) -> tuple[float, float, float, float]:
    """Seconds of the search, dives, the exact program and looking nearby."""
    first, *later = SHARES.get((few, small), (1.0, 0.0, 0.0, 0.0))
    search_s = max(seconds * first, min(SEARCH_SECONDS, seconds / 2)) if first < 1 else seconds
    dive_s, exact_s, nearby_s = ((seconds - search_s) * share / max(1 - first, 1e-9) for share in later)
    return search_s, dive_s, exact_s, nearby_s


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


def _search_again(problem: Problem, bounder: Bounder, bound: Bound, found: Outcome, limits: Limits, watch: _Watch) -> Outcome:
    """The better of the plan that was found and that of another search."""
    if limits.seconds == 0:
        return found
    again = _search(problem, bounder, bound, replace(limits, seed=limits.seed + 1), watch)
    better = again if again.objective_us < found.objective_us else found
    return replace(better, moves=found.moves + again.moves)


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


def _dive(problem: Problem, bounder: Bounder, bound: Bound, found: Outcome, limits: Limits, watch: _Watch) -> tuple[Outcome, float]:
    """Betters the plan that was found by dives; and what they leave of the seconds."""
    from solver.dive_cover import STEPS_PER_SECOND, Effort
    from solver.dives import Dives, divable  # imports OR-Tools: see `_settle`

    if found.assignment is None or not divable(problem, found.assignment):
        return found, limits.seconds
    effort = Effort(round(limits.seconds * STEPS_PER_SECOND), watch.should_stop)
    dives = Dives(problem, bounder, bound, limits.seed, effort)

    def improve(plan: Assignment) -> Assignment | None:
        return dives.improve(plan, found.lower_bound_us)

    best = _bettered(problem, found, improve, lambda: dives.exhausted or effort.ended, limits, watch)
    return best, max(0.0, limits.seconds - effort.steps / STEPS_PER_SECOND)


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
    """Betters the plan that was found by placing parts of it anew."""
    from solver.nearby import Nearby  # imports OR-Tools: see `_settle`

    nearby = Nearby(problem, bounder, bound, limits.seed, watch.should_stop)

    def improve(plan: Assignment) -> Assignment | None:
        return nearby.improve(plan, limits.seconds - nearby.counted_s)

    return _bettered(problem, found, improve, lambda: nearby.counted_s >= limits.seconds, limits, watch)


Improve = Callable[[Assignment], Assignment | None]
"""A better placement than the one given, or None."""


def _bettered(problem: Problem, found: Outcome, improve: Improve, has_ended: Callable[[], bool], limits: Limits, watch: _Watch) -> Outcome:
    """The plan that was found, bettered until that has ended or the gap is met."""
    best, met = found, False
    while best.assignment is not None and not met and not has_ended() and not watch.stopped():
        plan = improve(best.assignment)
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
