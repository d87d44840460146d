"""One question solved: each of its variants, except where a bound says that no plan of it is worth a search."""

from __future__ import annotations

import math

from emplace.placement.plan import Question
from emplace.solver.budget import Budget
from emplace.solver.driver.solve_types import solve_types
from emplace.solver.driver.type_search import TypeSearch
from emplace.solver.driver.variants import Variant, variants
from emplace.solver.model.build import price
from emplace.solver.model.extract import Placement
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result

NO_TIER = Result[Placement].infeasible("no tier")


def type_searches(question: Question, monitor: Monitor) -> list[tuple[Variant, TypeSearch]]:
    """Every variant with the search over its sharding types. Raises InvalidDocument for ranks that the host can't have."""
    return [(each, TypeSearch(price(question, each.topology, each.tiers), monitor)) for each in variants(question)]


def budget_of(question: Question, searches: list[tuple[Variant, TypeSearch]]) -> Budget:
    """An equal share of the question's limit for each variant that may have a plan."""
    may_fit = sum(types.others_us < math.inf for _, types in searches)
    options = question.options
    return Budget(options.time_limit / max(may_fit, 1), options.gap, options.seed)


def solve_variants(question: Question, monitor: Monitor) -> Result[Placement]:
    """The best plan of all variants, and a bound that holds for every plan there is."""
    searches = type_searches(question, monitor)
    budget, whole = budget_of(question, searches), NO_TIER
    for number, (variant, types) in enumerate(searches):
        if whole.solution is not None and types.others_us >= whole.objective_us * (1 - budget.gap):
            whole = whole.united_with(types.unsearched(Limit.GAP))
        else:
            others_us = min([whole.lower_bound_us, *(later.others_us for _, later in searches[number + 1 :])])
            here = monitor.part(others_bound_us=others_us, others_best_us=whole.objective_us, phase=f"{variant.name}: ")
            whole = whole.united_with(solve_types(types, budget, here))
    return whole
