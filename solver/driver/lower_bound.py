"""How good any plan could be, without looking for one."""

from __future__ import annotations

import math

from emplace.placement.plan import Question
from emplace.solver.driver.solve_variants import type_searches
from emplace.solver.progress import Monitor


def lower_bound(question: Question) -> tuple[float, str]:
    """Microseconds that every plan of the question takes at least, and the name of the bound. Infinity where no plan fits.

    Raises InvalidDocument for options that no target has. docs/explanation/bounds.md proves the bound.
    """
    return min([(math.inf, "no tier"), *((types.lowest_us(), types.name) for _, types in type_searches(question, Monitor()))])
