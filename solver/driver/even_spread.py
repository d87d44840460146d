"""The bounds that are known at once, without a linear program, and their names."""

from __future__ import annotations

from emplace.solver.driver.shared_cores import least_work_us
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.relaxation.bound import bound_at_once

EVEN_SPREAD, NO_TABLES = "even spread", "step without tables"
"""The second is what a step takes without tables, whatever is placed."""


def even_spread_us(priced: PricedQuestion) -> float:
    """A bound on every plan of the program: all tables spread evenly, whatever the memory."""
    is_shared = priced.question.cost_model.ranks_per_core > 1
    return (least_work_us if is_shared else bound_at_once)(priced.relaxed)
