"""How long a placement's step may last where nobody measured: with every figure of the stack at the fast end of its range, and at the slow."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.datasheet import datasheet_cost_model, follows_datasheet
from emplace.placement.derived_loads import derive_loads
from emplace.placement.plan import Plan
from emplace.placement.stack import Pace


@dataclass(frozen=True)
class StepRange:
    """Microseconds of a step."""

    fast_us: float
    slow_us: float


def step_range(plan: Plan) -> StepRange | None:
    """The range of a plan's step; None where it places nothing, and where prices are measured or given by a person.

    The placement is the plan's: at other prices another one might be better.
    """
    question = plan.sized_question
    if not plan.has_placement or not follows_datasheet(question.cost_model, question.host):
        return None
    steps = []
    for pace in (Pace.FAST, Pace.SLOW):
        prices = datasheet_cost_model(question.host, question.cost_model.stack, pace)
        priced = question.model_copy(update={"cost_model": prices})
        steps.append(derive_loads(priced, plan.tables, plan.topology()).step_time_us)
    return StepRange(*steps)
