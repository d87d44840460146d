"""The bound that is known at once, without a linear program, and its name."""

from __future__ import annotations

from emplace.solver.driver.shared_cores import least_work_us
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.relaxation.bound import bound_at_once

EVEN_SPREAD = "even spread"


def even_spread_us(priced: PricedQuestion) -> float:
    """A bound on every plan of the program: all tables spread evenly, whatever the memory."""
    is_shared = priced.question.cost_model.ranks_per_core > 1
    return (least_work_us if is_shared else bound_at_once)(priced.relaxed)
