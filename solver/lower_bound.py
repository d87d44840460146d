"""How good any plan could be, without looking for one."""

from __future__ import annotations

import math

from placement.plan import Question
from solver.attempt import every_table_has_an_option, variants
from solver.bound import bound_of
from solver.pricing import price


def lower_bound(question: Question) -> tuple[float, str]:
    """Microseconds that every plan of the question takes at least, and the name of the bound. Infinity where no plan fits.

    Raises InvalidDocument for options that no target has. docs/bounds.md proves the bound.
    """
    found = [(math.inf, "no tier")]
    for variant in variants(question):
        priced = price(question, variant.topology, variant.tiers)
        if every_table_has_an_option(priced):
            bound = bound_of(priced.relaxed)
            found.append((bound.value_us, bound.name))
    return min(found)
