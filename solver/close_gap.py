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
from emplace.solver.budget import CP_SAT_SHARE, FIRST_PROOF_SHARE, PROOF_ROUNDS, Budget
from emplace.solver.cp_sat import by_cp_sat
from emplace.solver.heuristics.improve import Improver
from emplace.solver.model.problem import Assignment, Problem
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import Limit, Result

LEAST_RISE = 0.05
"""A round of branch and bound that raises the bound by less than this share of what lies between it and the plan is followed by a
round for another plan, the next such by two, then four."""


def close_gap(
    problem: Problem, bounder: Bounder, bound: Bound, found: Result[Assignment], budget: Budget, monitor: Monitor, *, is_small: bool
) -> Result[Assignment]:
    """What was found, bettered until plan and bound meet within the gap asked for or the seconds are spent on each core."""
    if is_small and found.solution is None:
        last = by_cp_sat(problem, budget, monitor).merged_with(found)
        return replace(last, counted_s=found.counted_s + budget.seconds)
    settled = threading.Event()
    until_settled = monitor.until(settled.is_set)
    one, other = (Improver(problem, bounder, bound, found, replace(budget, seed=budget.seed + index), until_settled) for index in range(2))
    prover = Prover(problem, bounder, bound, budget, monitor)
    counted_s = found.counted_s
    best, for_plans, more_for_plans = found, 0.0 if is_small else math.inf, 1.0
    rest = (1 - FIRST_PROOF_SHARE - CP_SAT_SHARE) / PROOF_ROUNDS
    with ThreadPoolExecutor(1) as pool:
        for index, share in enumerate([FIRST_PROOF_SHARE, CP_SAT_SHARE, *[rest] * PROOF_ROUNDS]):
            seconds = share * budget.seconds
            counted_s += seconds
            bettering = pool.submit(one.run, best, seconds)
            if for_plans:
                beside, for_plans = other.run(best, seconds), for_plans - 1
            else:
                beside = prover.by_cp_sat(best, seconds) if index == 1 else prover.by_patterns(best, seconds)
                if index > 1 and _rise(best, beside) <= LEAST_RISE:
                    for_plans, more_for_plans = more_for_plans, 2 * more_for_plans
            if beside.limit is Limit.NONE:
                settled.set()
                return replace(beside, counted_s=counted_s)
            best = _ended(beside.merged_with(bettering.result()), budget, monitor)
            if best.limit is not Limit.WORK:
                break
    return replace(best, counted_s=counted_s)


def _rise(before: Result[Assignment], after: Result[Assignment]) -> float:
    """How far the bound was raised, as a share of what lay between it and the plan."""
    return (after.lower_bound_us - before.lower_bound_us) / max(before.objective_us - before.lower_bound_us, 1e-300)


def _ended(best: Result[Assignment], budget: Budget, monitor: Monitor) -> Result[Assignment]:
    met = best.gap <= budget.enough
    return replace(best, limit=Limit.GAP if met else Limit.INTERRUPTED if monitor.stopped() else Limit.WORK)
