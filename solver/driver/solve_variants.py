"""One question solved: each of its variants, for the sets of sharding types that may hold its best plan."""

from __future__ import annotations

import math
from dataclasses import replace

from emplace.placement.plan import Question
from emplace.solver.budget import LEAST_SECONDS, LEAST_TYPE_COST_SHARE, TIE, TYPE_SET_SHARES, Budget, enough_gap
from emplace.solver.driver.all_memory import weights_exceed_memory
from emplace.solver.driver.at_once import Programs, answered_at_once, packed_at_once
from emplace.solver.driver.likely_ways import solve_likely_first
from emplace.solver.driver.packing import quick_placement
from emplace.solver.driver.shared_cores import SHARED_BOUND, cheap_options, least_work_us, shared_bound_us
from emplace.solver.driver.solve_program import solve_program
from emplace.solver.driver.type_search import TypeProgram, TypeSearch, with_only
from emplace.solver.driver.variants import Variant, variants
from emplace.solver.model.build import covered, price
from emplace.solver.model.extract import Placement
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.warm_start import Placed, with_warm_start
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result

Searches = list[tuple[Variant, TypeSearch]]
"""The variants of a question, each with the search over its sharding types."""

TOO_MUCH = Result[Placement].infeasible("class relaxation")
"""The answer where weights are more than all memory, which the rows of bytes of the relaxation say too, once all options are priced."""
NO_TIER = Result[Placement].infeasible("no tier")
"""The answer where no tier is allowed; united with others it changes nothing."""


def solve_variants(
    question: Question, monitor: Monitor, warm_start: Placed | None = None, offered: Programs | None = None
) -> Result[Placement]:
    """The best plan of all variants, and a bound that holds for every plan there is; or only as much as the monitor's target asks for.

    The first search begins with tables as in `warm_start`. `offered` are the question's `offered_variants`, where they are there already.
    """
    if weights_exceed_memory(question):
        return TOO_MUCH
    # Without a target neither would end it: small questions would be priced twice, in vain.
    if monitor.has_target and (packed := packed_at_once(question, monitor)) is not None:
        return packed
    programs = _covered(question, offered)
    if monitor.has_target and (quick := answered_at_once(programs, monitor)) is not None:
        return quick
    return solve_searches(question, _searches(programs, monitor, warm_start), monitor)


def solve_searches(question: Question, searches: Searches, monitor: Monitor) -> Result[Placement]:
    """The best plan of the searches of all variants, and a bound that holds for every plan there is."""
    budget, whole = budget_of(question, searches, monitor), NO_TIER
    for number, (variant, types) in enumerate(searches):
        is_beaten = whole.solution is not None and types.others_us >= whole.objective_us * (1 - budget.gap)
        if is_beaten:
            whole = whole.united_with(types.unsearched(Limit.GAP))
        elif types.others_us >= monitor.useless_us or monitor.is_answered(whole.objective_us, 0.0):
            whole = whole.united_with(with_first_plan(types.unsearched(Limit.WORK), types.first_plan))
        else:
            others_us = min([whole.lower_bound_us, *(later.others_us for _, later in searches[number + 1 :])])
            here = monitor.part(others_bound_us=others_us, others_best_us=whole.objective_us, phase=f"{variant.name}: ")
            whole = whole.united_with(solve_types(types, budget, here.sharing(1 / (len(searches) - number))))
    return whole


def offered_variants(question: Question) -> Programs:
    """Every variant with the program of what is offered, without a cover; where blocks of rows are unlike, with two: the sum of the heaviest
    blocks is too much for any rank where they are not on the same one, and the mean too little for one that has them all.

    Raises InvalidDocument for ranks that the host can't have.
    """
    programs: Programs = []
    for each in variants(question):
        of_heaviest = price(question, each.topology, each.tiers, with_cover=False)
        programs.append((each, of_heaviest))
        if of_heaviest.columns is None and of_heaviest.pricer.is_uneven.any():
            programs.append((each, price(question, each.topology, each.tiers, with_cover=False, mean_blocks=True)))
    return programs


def type_searches(question: Question, monitor: Monitor, warm_start: Placed | None = None, offered: Programs | None = None) -> Searches:
    """Every variant with the search over its sharding types; `offered` as in `solve_variants`. Raises InvalidDocument for ranks that the
    host can't have."""
    return _searches(_covered(question, offered), monitor, warm_start)


def _covered(question: Question, offered: Programs | None) -> Programs:
    return [(variant, covered(priced, variant.tiers)) for variant, priced in offered or offered_variants(question)]


def _searches(programs: Programs, monitor: Monitor, warm_start: Placed | None) -> Searches:
    if warm_start is not None:
        programs = [(variant, with_warm_start(priced, warm_start)) for variant, priced in programs]
    return [(variant, type_search(priced, monitor)) for variant, priced in programs]


def type_search(priced: PricedQuestion, monitor: Monitor) -> TypeSearch:
    """The search over the sets of types of one program; under a limit of time, or with a target, it has a plan made without any search."""
    has_first = monitor.clock.is_set or monitor.target_us is not None
    first = quick_placement(priced) if has_first else None
    return TypeSearch(priced, monitor, None if first is None else _launched(first, priced.question))


def budget_of(question: Question, searches: Searches, monitor: Monitor) -> Budget:
    """An equal share of the question's limit of work for each variant that may have a plan; without one, what the time allows.

    Close to the best is not enough where a target lies between the plan and its bound.
    """
    may_fit = sum(types.others_us < math.inf for _, types in searches)
    options, limit = question.options, question.options.work_limit
    seconds = max(monitor.clock.left_s, LEAST_SECONDS) if limit is None else limit
    gap = enough_gap(options.gap if monitor.target_us is None else 0.0)
    return Budget(seconds / max(may_fit, 1), gap, options.seed, by_clock=limit is None)


def solve_types(types: TypeSearch, budget: Budget, monitor: Monitor) -> Result[Placement]:
    """The best plan over the sets of types, in the order of their bounds, and a bound on the plans of all of them."""
    whole, left = Result[Placement].infeasible(types.name), 1.0
    for share in TYPE_SET_SHARES:
        if whole.limit is Limit.INTERRUPTED or (whole.solution is not None and monitor.stopped()):
            break
        if monitor.is_answered(whole.objective_us, min(whole.lower_bound_us, types.others_us)):
            break
        if (program := types.next_below(min(whole.objective_us * (1 - budget.gap), monitor.useless_us))) is None:
            break
        share = share if types.others_us < math.inf else left
        here = _view(monitor, program, types, whole).sharing(share / left)
        whole = whole.united_with(_solve_set(program, budget.share(share), here))
        left -= share
        if whole.solution is None and whole.limit is Limit.WORK:
            break  # what is left of the limit goes to all types at once
    if types.others_us < whole.objective_us:
        whole = whole.united_with(types.unsearched(Limit.WORK))
    is_wanted = whole.solution is None and whole.lower_bound_us < monitor.useless_us
    if is_wanted and whole.limit is Limit.WORK and types.matter and left > TIE:
        # Which types cost what is of no concern where the question is whether there is a plan at all.
        program = types.undecided(whole.lower_bound_us)
        here = monitor.part(least_bound_us=program.bound_us, unpaid_us=program.unpaid_us)
        whole = _solve_set(program, budget.share(left), here)
    whole = with_first_plan(whole, types.first_plan)
    return replace(whole, limit=Limit.GAP) if _is_close(whole, budget) else whole


def with_first_plan(whole: Result[Placement], first: Placement | None) -> Result[Placement]:
    """What was found, or the plan that was there before any search where that is better: it uses any sharding types."""
    if first is None or first.cost_us >= whole.objective_us:
        return whole
    return replace(whole, solution=first, objective_us=first.cost_us, lower_bound_us=min(whole.lower_bound_us, first.cost_us))


def _view(monitor: Monitor, program: TypeProgram, types: TypeSearch, whole: Result[Placement]) -> Monitor:
    return monitor.part(
        least_bound_us=program.bound_us,
        others_bound_us=min(types.others_us, whole.lower_bound_us),
        others_best_us=min(whole.objective_us, types.first_us),
        unpaid_us=program.unpaid_us,
    )


def _solve_set(program: TypeProgram, budget: Budget, monitor: Monitor) -> Result[Placement]:
    if monitor.stopped():
        quick = None if monitor.clock.is_set else quick_placement(program.priced)
        return _result(quick, program.bound_us, program.bound, monitor.limit)
    if program.priced.question.cost_model.ranks_per_core > 1:
        found = _solve_shared(program.priced, budget, monitor)
    else:
        found = solve_likely_first(program, budget, monitor)
    if program.bound_us > found.lower_bound_us:
        found = replace(found, lower_bound_us=program.bound_us, bound=program.bound)
    if found.solution is not None:
        launched = _launched(found.solution, program.priced.question)
        found = replace(found, solution=launched, objective_us=launched.cost_us)
    return _unsettled(found, budget) if program.unpaid_us > 0 else found


def _launched(placement: Placement, question: Question) -> Placement:
    """The placement with a step no shorter than launching its sharding types."""
    launched_us = question.cost_model.launched_us(question.model, {table.sharding_type for table in placement.tables})
    return placement if placement.step_time_us >= launched_us else replace(placement, step_time_us=launched_us)


def _unsettled(found: Result[Placement], budget: Budget) -> Result[Placement]:
    """The result of a program that does not charge all types: its plan costs more than it knew, so the gap may be open again."""
    is_settled = found.is_settled and not found.is_infeasible
    return replace(found, limit=Limit.WORK) if is_settled and found.gap > budget.gap + TIE else found


def _is_close(whole: Result[Placement], budget: Budget) -> bool:
    return whole.limit is Limit.WORK and whole.solution is not None and whole.gap <= budget.gap


def _solve_shared(priced: PricedQuestion, budget: Budget, monitor: Monitor) -> Result[Placement]:
    """Where ranks share cores: with the options that are the least work, and with all where those are not close to the bound."""
    bound_us, part = least_work_us(priced.relaxed), budget.share(LEAST_TYPE_COST_SHARE)
    best = _result(None, bound_us, SHARED_BOUND, Limit.WORK)
    for program, share in ((with_only(priced, cheap_options(priced.problem)), LEAST_TYPE_COST_SHARE), (priced, 1.0)):
        # The search's own figures are of another objective than the answer's.
        here = monitor.part(least_bound_us=bound_us, others_bound_us=bound_us, unpaid_us=math.inf).sharing(share)
        found = solve_program(program, part, here)
        if program is priced:
            if found.is_infeasible:
                return found
            bound_us = max(bound_us, shared_bound_us(priced, found.lower_bound_us))
        better = found if found.objective_us < best.objective_us else best
        limit = Limit.INTERRUPTED if found.limit is Limit.INTERRUPTED else Limit.WORK
        best = replace(_result(better.solution, bound_us, SHARED_BOUND, limit), moves=best.moves + found.moves)
        if _is_close(best, budget):
            return replace(best, limit=Limit.GAP)
        if limit is Limit.INTERRUPTED or monitor.stopped() or monitor.is_answered(best.objective_us, best.lower_bound_us):
            break
    return best


def _result(placement: Placement | None, bound_us: float, bound: str, limit: Limit) -> Result[Placement]:
    return Result(placement, math.inf if placement is None else placement.cost_us, bound_us, bound, limit)
