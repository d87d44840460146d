"""How good any plan could be, without looking for one."""

from __future__ import annotations

import math

from emplace.placement.derived_loads import constant_us
from emplace.placement.plan import Question
from emplace.solver.driver.floor import Bound, raised_bound
from emplace.solver.driver.solve_variants import type_searches
from emplace.solver.progress import Monitor


def lower_bound(question: Question) -> Bound:
    """Microseconds that every plan of the question takes at least, launches and input included, and the name of the bound. Infinite where
    no plan fits.

    Raises InvalidDocument for options that no target has. docs/explanation/bounds.md proves the bound.
    """
    floor, every = question.cost_model.floor(question.model), [(math.inf, "no tier")]
    for variant, types in type_searches(question, Monitor()):
        every.append(raised_bound((types.lowest_us(), types.name), floor, constant_us(question, variant.topology)))
    return min(every)
