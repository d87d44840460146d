"""One problem solved: bound, then local search, then plan and bound brought together where the size allows.

In that last part two cores work side by side: on one the plan is bettered; on the other the bound is raised, or where choices
are too many for that, another plan bettered. Both work in rounds and meet after each. What a side does in a round follows from
what both knew before it, and work is counted, so the answer is the same however fast either is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, repeat

import numpy as np

from emplace.placement.sums import add_up
from emplace.solver.budget import (
    ANY_PLAN_GAP,
    BOUND_SHARE,
    CP_SAT_SHARE,
    FIRST_PROOF_SHARE,
    PROOF_ROUNDS,
    SEARCH_SECONDS,
    SEARCH_SHARES,
    SEARCH_WORK_PER_SECOND,
    Budget,
)
from emplace.solver.local_search.race import Race
from emplace.solver.local_search.search import Incumbent
from emplace.solver.model.problem import Assignment, Problem, Scope, loads_of, objective_us, with_options
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import Limit, Result, gap_of

SMALL_CHOICES = 30_000
"""A problem with at most so many choices (options x targets) is small: the exact program is tried."""
FEW_TABLES_PER_DEVICE, FEW_TABLES = 5, 500
"""Tables are few up to so many per device, and in all: where there are more, placing parts of a plan anew found nothing that the
search had not, or is slow."""
LONGER_THAN_FOUND, LEAST_SEARCHED = 2.0, 0.25
"""Where restarts are many and something follows them, they end once their work is so many times what it was when the best was found, and at
least this share of what they may do."""
LEAST_RISE_OF_BOUND = 0.05
"""A round of branch and bound that raises the bound by less than this share of what lies between it and the plan is followed by a
round for another plan, the next such by two, then four."""


@dataclass(frozen=True)
class Size:
    """What the size of a problem allows."""

    has_few_tables: bool
    is_small: bool
    is_assignment: bool
    """Whether options leave nothing to choose: patterns of single devices then say little."""

    @classmethod
    def of(cls, problem: Problem) -> Size:
        """The size of a problem."""
        few = problem.num_tables <= min(FEW_TABLES_PER_DEVICE * problem.num_devices, FEW_TABLES)
        number = choices(problem)
        return cls(few, number <= SMALL_CHOICES, number == problem.num_options)

    def search_seconds(self, seconds: float) -> float:
        """The seconds of the local search out of those of the limit; the rest is for closing the gap."""
        share = SEARCH_SHARES.get((self.has_few_tables, self.is_small), 1.0)
        return max(seconds * share, min(SEARCH_SECONDS, seconds / 2)) if share < 1 else seconds


def solve(
    problem: Problem, budget: Budget, monitor: Monitor | None = None, known: Bounder | None = None, *, is_claimed: bool = True
) -> Result[Assignment]:
    """The best assignment found within the budget and a bound on every assignment.

    The same problem and budget give the same answer, whatever the machine does besides; unless the clock ends it. `known` has
    bounded the problem but for what the step takes without tables. Where the bound is not what is claimed in the end, it is not raised
    as far as can be.
    """
    monitor = monitor or Monitor()
    problem = merge_stages(problem)
    if problem.num_tables == 0:
        nothing = Assignment(np.empty(0, dtype=np.int64), ())
        value_us = objective_us(problem, loads_of(problem, nothing))
        return Result(nothing, value_us, value_us, "no tables", Limit.NONE)
    bounder = Bounder(problem, monitor.sharing(BOUND_SHARE).clock) if known is None else known.with_base(problem)
    bound = bounder.bound()
    monitor.tell(math.inf, bound.value_us, "bound")
    if not bound.feasible:
        return Result.infeasible(bound.name)
    if monitor.is_answered(math.inf, bound.value_us):
        return Result(None, math.inf, bound.value_us, bound.name, Limit.TARGET)
    if is_claimed:
        bound = bounder.raised(bound)
        monitor.tell(math.inf, bound.value_us, "bound")
    size = Size.of(problem)
    search_s = size.search_seconds(budget.seconds)
    best = _searched(problem, bounder, bound, budget.of(search_s), monitor, search_s / budget.seconds)
    if best.limit is not Limit.WORK or not (size.has_few_tables or size.is_small):
        return best
    left = budget.of(budget.seconds - min(best.counted_s, search_s))
    if size.is_assignment:
        return _with_integer_program(bounder, bound, best, left, monitor)
    proves = size.is_small or (is_claimed and problem.num_stages > 1)
    return _with_gap_closed(bounder, bound, best, left, monitor, is_small=size.is_small, proves=proves)


def choices(problem: Problem) -> int:
    """The number of pairs of an option and a target of one of its units."""
    nodes = len(np.unique(problem.device_node[problem.device_is_trainer]))
    by_kind = np.bincount(problem.device_kind, minlength=problem.num_kinds)
    targets = np.where(
        problem.option_scope == Scope.DEVICE, by_kind[problem.option_kind], np.where(problem.option_scope == Scope.NODE, nodes, 1)
    )
    return int((targets * np.diff(problem.option_first_unit)).sum())


def _searched(problem: Problem, bounder: Bounder, bound: Bound, budget: Budget, monitor: Monitor, share: float) -> Result[Assignment]:
    """The best assignment that local search finds in this share of the time, or sooner where it stands still; in all of it, while it finds none."""
    best, limit, here = Incumbent(None, math.inf, 0.0, 0), Limit.WORK, monitor.sharing(share)
    latest: dict[int, Incumbent] = {}
    work = found_at = 0.0
    wanted = replace(budget, gap=max(budget.gap, _gap_wanted(bound, monitor)))
    race = Race(problem, bounder, bound, wanted, here)
    for search in race.searches():
        latest[search.seed] = search.best
        work = add_up(each.work for each in latest.values())
        if search.best.objective_us < best.objective_us:
            best, found_at = search.best, work
        monitor.tell(best.objective_us, bound.value_us, "search")
        limit = _limit(best.objective_us, bound.value_us, budget, monitor)
        if limit is not Limit.WORK or (monitor if best.assignment is None else here).stopped():
            break
        if share < 1 and race.has_many_restarts and best.assignment is not None and _stands_still(work, found_at, race):
            break
    bound_us = min(bound.value_us, best.objective_us)
    moves, counted_s = sum(each.moves for each in latest.values()), work / SEARCH_WORK_PER_SECOND
    return Result(best.assignment, best.objective_us, bound_us, bound.name, limit, moves, counted_s)


def _stands_still(work: float, found_at: float, race: Race) -> bool:
    """Whether a race, which has done so much work and found its best when it was `found_at`, has looked long enough for a better."""
    return work > max(LONGER_THAN_FOUND * found_at, LEAST_SEARCHED * race.work)


def _with_integer_program(
    bounder: Bounder, bound: Bound, found: Result[Assignment], budget: Budget, monitor: Monitor
) -> Result[Assignment]:
    """What was found, bettered by CP-SAT with all of the budget, among the options that a better assignment may have."""
    from emplace.solver.cp_sat import by_cp_sat

    problem, hint = bounder.problem, found.solution
    keep = np.ones(problem.num_options, dtype=bool)
    if hint is not None:
        keep, _ = bounder.candidates(bound, found.objective_us)
        keep[hint.option] = True
    kept = np.flatnonzero(keep)
    start = None if hint is None else replace(hint, option=np.searchsorted(kept, hint.option))
    exact = by_cp_sat(with_options(problem, keep), budget, monitor, start)
    solution = None if exact.solution is None else replace(exact.solution, option=kept[exact.solution.option])
    best = replace(exact, solution=solution).merged_with(found)
    best = best if best.is_settled else _ended(best, budget, monitor)
    return replace(best, moves=found.moves, counted_s=found.counted_s + budget.seconds)


def _with_gap_closed(
    bounder: Bounder, bound: Bound, found: Result[Assignment], budget: Budget, monitor: Monitor, *, is_small: bool, proves: bool
) -> Result[Assignment]:
    """What was found, bettered until plan and bound meet within the gap asked for or the seconds are spent on each core. Where nothing
    `proves`, the bound stays, and both cores look for plans."""
    # These import OR-Tools, and with it pandas: most of what `emplace check` would take to start.
    from emplace.solver.branch_and_price.prover import Prover
    from emplace.solver.cp_sat import by_cp_sat
    from emplace.solver.heuristics.improve import Improver

    problem = bounder.problem
    if is_small and found.solution is None:
        last = by_cp_sat(problem, budget, monitor).merged_with(found)
        return replace(last, counted_s=found.counted_s + budget.seconds)
    is_over = threading.Event()
    until_over = monitor.until(is_over.is_set)
    one, other = (Improver(problem, bounder, bound, found, replace(budget, seed=budget.seed + index), until_over) for index in range(2))
    prover = Prover(problem, bounder, bound, budget, monitor)
    counted_s = found.counted_s
    best, for_plans, more_for_plans = found, 0.0 if proves else math.inf, 1.0
    with ThreadPoolExecutor(1) as pool, ExitStack() as at_end:
        at_end.callback(is_over.set)  # Ctrl-C, too, does not wait for the other side's round
        for index, share in enumerate(_rounds(endless=budget.by_clock)):
            seconds = share * budget.seconds
            counted_s += seconds
            bettering = pool.submit(one.run, best, seconds)
            if for_plans:
                second, for_plans = other.run(best, seconds), for_plans - 1
            else:
                second = prover.by_cp_sat(best, seconds) if index == 1 and is_small else prover.by_patterns(best, seconds)
                if index > 1 and _rise(best, second) <= LEAST_RISE_OF_BOUND:
                    for_plans, more_for_plans = more_for_plans, 2 * more_for_plans
            if second.is_settled:
                return replace(second, counted_s=counted_s)
            best = _ended(second.merged_with(bettering.result()), budget, monitor)
            if best.limit is not Limit.WORK or monitor.stopped():
                break
    return replace(best, counted_s=counted_s)


def _rounds(*, endless: bool) -> Iterator[float]:
    """The shares of the rounds of closing the gap; with `endless` more of them, for the clock to end."""
    rest = (1 - FIRST_PROOF_SHARE - CP_SAT_SHARE) / PROOF_ROUNDS
    return chain([FIRST_PROOF_SHARE, CP_SAT_SHARE], repeat(rest) if endless else repeat(rest, PROOF_ROUNDS))


def _rise(before: Result[Assignment], after: Result[Assignment]) -> float:
    """How far the bound was raised, as a share of what lay between it and the plan."""
    return (after.lower_bound_us - before.lower_bound_us) / max(before.objective_us - before.lower_bound_us, 1e-300)


def _ended(best: Result[Assignment], budget: Budget, monitor: Monitor) -> Result[Assignment]:
    return replace(best, limit=_limit(best.objective_us, best.lower_bound_us, budget, monitor))


def _limit(objective_us: float, bound_us: float, budget: Budget, monitor: Monitor) -> Limit:
    """What ends a part that has come so far; WORK where nothing else does."""
    if math.isfinite(objective_us) and gap_of(objective_us, bound_us) <= budget.enough:
        return Limit.GAP
    return Limit.TARGET if monitor.is_answered(objective_us, bound_us) else monitor.limit


def _gap_wanted(bound: Bound, monitor: Monitor) -> float:
    """The gap of an assignment that is just enough, if any is; a search that aims at less has it later."""
    enough_us = monitor.enough_us
    return min(1 - bound.value_us / enough_us, ANY_PLAN_GAP) if enough_us > bound.value_us else 0.0
