"""One program solved, its assignment read back as a placement that fits to the byte."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from emplace.placement.plan import Question
from emplace.solver.budget import LEAST_RETRY_SHARE, TIE, UNRESTRICTED_SHARE, Budget
from emplace.solver.driver.conflict_repair import dealt_out
from emplace.solver.driver.packing import quick_placement
from emplace.solver.driver.variants import variants
from emplace.solver.engine import solve
from emplace.solver.model.build import price
from emplace.solver.model.conflicts import Groups, keeps_apart
from emplace.solver.model.extract import Placement, assemble
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Assignment, Problem
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bounder
from emplace.solver.result import Limit, Result, gap_of

COVER_BOUND = "class relaxation of all that runs"
"""The name of the bound where not all that runs is offered."""


def solve_program(
    priced: PricedQuestion, budget: Budget, monitor: Monitor, covered_us: float = 0.0, known: Bounder | None = None
) -> Result[Placement]:
    """The best placement found, and a bound on every placement of the program; `known` as in `solve`.

    Where the program offers only some of what runs, `covered_us` is the bound on all of it, and nothing that is proven of the program
    says more.
    """
    here = monitor if priced.cover is None else monitor.part(others_bound_us=covered_us)
    if not priced.every_item_has_an_option:
        return Result(None, math.inf, covered_us, COVER_BOUND, Limit.WORK)
    is_claimed = priced.cover is None
    found = solve_apart(priced.problem, priced.apart, budget, here.sharing(1 - LEAST_RETRY_SHARE), known, is_claimed=is_claimed)
    if priced.cover is not None:
        found = _covered(found, covered_us)
    if found.is_infeasible:
        return Result(None, math.inf, math.inf, found.bound, found.limit, found.moves)
    placement, moves = _exact_placement(priced, found, budget, monitor.part(others_bound_us=found.lower_bound_us))
    quick = None if placement is not None and monitor.clock.is_set else quick_placement(priced)
    best = min((plan for plan in (placement, quick) if plan is not None), key=lambda plan: plan.step_time_us, default=None)
    if best is None:
        limit = Limit.INTERRUPTED if found.limit is Limit.INTERRUPTED else Limit.WORK
        return Result(None, math.inf, found.lower_bound_us, found.bound, limit, moves)
    # The plan may be slower than the program knew: of blocks of rows and of caches it knows the least.
    exact = Result(best, best.cost_us, found.lower_bound_us, found.bound, found.limit, moves)
    if exact.limit is Limit.TARGET and not monitor.is_answered(exact.objective_us, exact.lower_bound_us):
        slower = monitor.part(others_best_us=best.cost_us, unpaid_us=best.cost_us - found.objective_us)
        again = solve_program(priced, _left(found, budget), slower, covered_us, known).merged_with(exact)
        return replace(again, moves=again.moves + moves)
    return replace(exact, limit=Limit.WORK) if exact.is_settled and exact.gap > budget.enough + TIE else exact


def is_feasible(question: Question, budget: Budget, monitor: Monitor) -> bool:
    """Whether a plan is found, however slow, within the budget for each variant. Raises InvalidDocument as `variants` does."""
    searched = []
    for variant in variants(question):
        program = price(question, variant.topology, variant.tiers, may_be_concrete=False, with_cover=False)
        if quick_placement(program) is not None:
            return True
        searched += [program] if program.every_item_has_an_option else []
    return any(_any_placement(program, budget, monitor) is not None for program in searched)


def _covered(found: Result[Assignment], covered_us: float) -> Result[Assignment]:
    """With a bound that holds for what is not offered too."""
    limit = found.limit if found.limit in (Limit.TARGET, Limit.INTERRUPTED) else Limit.WORK
    return replace(found, lower_bound_us=min(covered_us, found.lower_bound_us), bound=COVER_BOUND, limit=limit)


def _any_placement(priced: PricedQuestion, budget: Budget, monitor: Monitor) -> Placement | None:
    """A placement by a search that takes all stages for one: with the same placements, its bound takes a moment."""
    problem = priced.problem
    one_stage = replace(
        problem,
        stage_base_us=problem.stage_base_us.sum(keepdims=True),
        unit_time_us=problem.unit_time_us.sum(axis=2, keepdims=True),
    )
    program = replace(priced, problem=one_stage)
    found = solve_apart(one_stage, priced.apart, budget, monitor, is_claimed=False)
    return _exact_placement(program, found, budget, monitor)[0]


def _exact_placement(priced: PricedQuestion, found: Result[Assignment], budget: Budget, monitor: Monitor) -> tuple[Placement | None, int]:
    """The placement of what was found, if it fits to the byte, and the moves of finding it.

    The program charges a row split its shortest block. Where the exact bytes went over, a second search leaves room for the
    difference, with what the first left of the limit.
    """
    placement = None if found.solution is None else assemble(priced, found.solution)
    if placement is None or placement.fits:
        return placement, found.moves
    if found.limit is Limit.INTERRUPTED:
        return None, found.moves
    problem = priced.problem
    ranks_per_pool = np.bincount(problem.device_pool, minlength=len(problem.ddr_capacity))
    tighter: Problem = replace(
        problem,
        hbm_capacity=np.maximum(problem.hbm_capacity - priced.slack_bytes, 0),
        ddr_capacity=np.maximum(problem.ddr_capacity - priced.slack_bytes * ranks_per_pool, 0),
    )
    second = solve_apart(tighter, priced.apart, _left(found, budget), monitor, is_claimed=False)
    placement = None if second.solution is None else assemble(priced, second.solution)
    return placement if placement is not None and placement.fits else None, found.moves + second.moves


def _left(found: Result[Assignment], budget: Budget) -> Budget:
    """What a search left of its limit, or a least share of it."""
    return budget.of(max(budget.seconds - found.counted_s, LEAST_RETRY_SHARE * budget.seconds))


def solve_apart(
    problem: Problem, groups: Groups, budget: Budget, monitor: Monitor, known: Bounder | None = None, *, is_claimed: bool = True
) -> Result[Assignment]:
    """`solve`, with an assignment that keeps the groups apart or none."""
    if not groups:
        return solve(problem, budget, monitor, known, is_claimed=is_claimed)
    # An assignment that may break the groups is no incumbent.
    here = monitor.part(has_incumbents=False).sharing(UNRESTRICTED_SHARE)
    first = solve(problem, budget.share(UNRESTRICTED_SHARE), here, known, is_claimed=is_claimed)
    if first.solution is None or keeps_apart(problem, groups, first.solution):
        return first
    # The bound is that of every placement, not only of those that devices were dealt out for.
    here = monitor.part(least_bound_us=first.lower_bound_us, others_bound_us=first.lower_bound_us)
    second = solve(dealt_out(problem, groups, first.solution), budget.share(1 - UNRESTRICTED_SHARE), here, is_claimed=False)
    limit = Limit.INTERRUPTED if Limit.INTERRUPTED in (first.limit, second.limit) else Limit.WORK
    bound, moves = f"{first.bound}, without keeping tables apart", first.moves + second.moves
    counted_s = first.counted_s + second.counted_s
    if second.solution is None:
        return Result(None, math.inf, first.lower_bound_us, bound, limit, moves, counted_s)
    if gap_of(second.objective_us, first.lower_bound_us) <= budget.gap:
        limit = Limit.GAP
    bound_us = min(first.lower_bound_us, second.objective_us)
    return Result(second.solution, second.objective_us, bound_us, bound, limit, moves, counted_s)
