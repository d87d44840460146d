"""What can be said of a question in a moment, without any search or linear program: plans by packing, and cheap bounds."""

from __future__ import annotations

import math

from emplace.placement.derived_plan import NO_TABLES
from emplace.placement.plan import Question
from emplace.solver.driver.even_spread import EVEN_SPREAD, even_spread_us
from emplace.solver.driver.packing import quick_placement
from emplace.solver.driver.variants import Variant, variants
from emplace.solver.model.build import price, step_without_tables_us
from emplace.solver.model.extract import Placement
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result

Programs = list[tuple[Variant, PricedQuestion]]
"""The variants of a question, each with its program."""


def packed_at_once(question: Question, monitor: Monitor) -> Result[Placement] | None:
    """The first packed plan that is as fast as the monitor's target; None where there is none. Covers, most of what pricing takes,
    are left out: the bound is what a step takes without tables.

    Raises InvalidDocument for ranks that the host can't have.
    """
    each = variants(question)
    for variant in each:
        plan = quick_placement(price(question, variant.topology, variant.tiers, with_cover=False))
        if plan is not None and monitor.is_answered(plan.cost_us, 0.0):
            bound_us = min(step_without_tables_us(question, other.topology) for other in each)
            return Result(plan, plan.cost_us, min(bound_us, plan.cost_us), NO_TABLES, Limit.TARGET)
    return None


def answered_at_once(programs: Programs, monitor: Monitor) -> Result[Placement] | None:
    """The best packed plan and the cheap bound of all programs, where they are all that the monitor's target asks for; else None."""
    whole = Result[Placement].infeasible(EVEN_SPREAD)
    for _, priced in programs:
        if priced.may_have_a_plan:
            plan = quick_placement(priced)
            cost_us = math.inf if plan is None else plan.cost_us
            whole = whole.united_with(Result(plan, cost_us, min(even_spread_us(priced), cost_us), EVEN_SPREAD, Limit.TARGET))
    return whole if monitor.is_answered(whole.objective_us, whole.lower_bound_us) and not whole.is_infeasible else None
