"""How good any plan could be, without looking for one."""

from __future__ import annotations

import math

import numpy as np

from placement.plan import Question
from solver.attempt import variants
from solver.bound import Bounder
from solver.pricing import price


def lower_bound(question: Question) -> tuple[float, str]:
    """Microseconds that every plan of the question takes at least, and the name of the bound. Infinity where no plan fits.

    Raises InvalidDocument for options that no target has. docs/bounds.md proves the bound.
    """
    found = [(math.inf, "no tier")]
    for variant in variants(question):
        priced = price(question, variant.topology, variant.tiers)
        problem = priced.relaxed
        has_room = (problem.hbm_capacity >= 0).all() and (problem.ddr_capacity >= 0).all()
        if has_room and len(np.unique(problem.option_table)) == problem.num_tables:
            bound = Bounder(problem).bound()
            found.append((bound.value_us, bound.name))
    return min(found)
