"""The end of a solve, where tables or choices are few: on one core the plan is bettered; on the other the bound is raised,
or where choices are too many for that another plan bettered.

Both work in rounds and meet after each. What a side does in a round follows from what both knew before it, and work is
counted, so the answer is the same however fast either is.
"""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from emplace.solver.branch_and_price.prover import Prover
from emplace.solver.cp_sat import by_cp_sat
from emplace.solver.heuristics.improve import Improver
from emplace.solver.model.problem import Problem
from emplace.solver.progress import Watch
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import MET, Limits, Outcome, StoppedBy

FIRST, CP_SAT, ROUNDS = 0.05, 0.15, 10
"""Shares of the seconds of the first round, when branch and bound gets far, and of the second, when CP-SAT settles what is easy
and what patterns say little about; then so many equal ones."""

LEAST_RISE = 0.05
"""Of what lies between bound and plan: a round of branch and bound that gains less is followed by one for another plan, the
next such by two, then four."""


def finish(problem: Problem, bounder: Bounder, bound: Bound, found: Outcome, limits: Limits, watch: Watch, *, is_small: bool) -> Outcome:
    """What was found, bettered until plan and bound meet within the gap asked for or the seconds are spent on each core."""
    if is_small and found.assignment is None:
        return by_cp_sat(problem, limits, watch.pass_on, watch.should_stop).beside(found)
    settled = threading.Event()

    def stopped() -> bool:
        return settled.is_set() or watch.stopped()

    each = [replace(limits, seed=limits.seed + index) for index in range(2)]
    one, other = (Improver(problem, bounder, bound, found, limits, watch.report, stopped) for limits in each)
    prover = Prover(problem, bounder, bound, limits, watch.pass_on, watch.should_stop)
    best, for_plans, more_for_plans = found, 0.0 if is_small else math.inf, 1.0
    with ThreadPoolExecutor(1) as pool:
        for index, share in enumerate([FIRST, CP_SAT, *[(1 - FIRST - CP_SAT) / ROUNDS] * ROUNDS]):
            seconds = share * limits.seconds
            bettering = pool.submit(one.run, best, seconds)
            if for_plans:
                beside, for_plans = other.run(best, seconds), for_plans - 1
            else:
                beside = prover.by_cp_sat(best, seconds) if index == 1 else prover.by_patterns(best, seconds)
                if index > 1 and _rise(best, beside) <= LEAST_RISE:
                    for_plans, more_for_plans = more_for_plans, 2 * more_for_plans
            if beside.stopped_by is StoppedBy.EXACT:
                settled.set()
                return beside
            best = _ended(beside.beside(bettering.result()), limits, watch)
            if best.stopped_by is not StoppedBy.LIMIT:
                break
    return best


def _rise(before: Outcome, after: Outcome) -> float:
    """How far the bound was raised, of what lay between it and the plan."""
    return (after.lower_bound_us - before.lower_bound_us) / max(before.objective_us - before.lower_bound_us, 1e-300)


def _ended(best: Outcome, limits: Limits, watch: Watch) -> Outcome:
    met = best.gap <= max(limits.gap, MET)
    return replace(best, stopped_by=StoppedBy.GAP if met else StoppedBy.CANCELLED if watch.stopped() else StoppedBy.LIMIT)
