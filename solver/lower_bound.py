"""How good any plan could be, without looking for one."""

from __future__ import annotations

import math

from placement.plan import Question
from solver.attempt import every_table_has_an_option, variants
from solver.bound import bound_of
from solver.pricing import Priced, price
from solver.sharding_sets import ShardingSets
from solver.shared_cores import least_work_us


def lower_bound(question: Question) -> tuple[float, str]:
    """Microseconds that every plan of the question takes at least, and the name of the bound. Infinity where no plan fits.

    Raises InvalidDocument for options that no target has. docs/bounds.md proves the bound.
    """
    found = [(math.inf, "no tier")]
    for variant in variants(question):
        priced = price(question, variant.topology, variant.tiers)
        if every_table_has_an_option(priced):
            found.append(_bound(priced))
    return min(found)


def _bound(priced: Priced) -> tuple[float, str]:
    if priced.question.cost_model.ranks_per_core > 1:
        return least_work_us(priced.relaxed), "least work"
    sets = ShardingSets(priced)
    if not sets.matter or (program := sets.next_below(math.inf)) is None:
        bound = bound_of(priced.relaxed)
        return bound.value_us, bound.name
    bound = bound_of(program.priced.relaxed)
    return min(sets.others_us, max(program.bound_us, bound.value_us)), sets.name
