"""How long a placement's step may last where nobody measured: with every figure of the stack at the fast end of its range, and at the slow."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.datasheet import datasheet_cost_model, follows_datasheet
from emplace.placement.derived_loads import derive_loads
from emplace.placement.plan import Plan
from emplace.placement.stack import Pace, Stack


@dataclass(frozen=True)
class StepRange:
    """Microseconds of a step."""

    fast_us: float
    slow_us: float


def step_range(plan: Plan) -> StepRange | None:
    """The range of a plan's step; None where it places nothing, and where prices are measured or given by a person.

    The placement is the plan's: at other prices another one might be better.
    """
    cost_model = plan.question.cost_model
    if not plan.has_placement or cost_model.stack is None or not follows_datasheet(cost_model, plan.question.host):
        return None
    return StepRange(step_under_us(plan, cost_model.stack, Pace.FAST), step_under_us(plan, cost_model.stack, Pace.SLOW))


def step_under_us(plan: Plan, stack: Stack, pace: Pace = Pace.TYPICAL) -> float:
    """Microseconds of a step with the plan's placement at the datasheet prices of a stack."""
    question = plan.sized_question
    priced = question.model_copy(update={"cost_model": datasheet_cost_model(question.host, stack, pace)})
    return derive_loads(priced, plan.tables, plan.topology()).step_time_us
