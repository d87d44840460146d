"""How long a placement's step may last where nobody measured: with every figure of the stack at the fast end of its range, and at the slow."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.datasheet import datasheet_cost_model, follows_datasheet
from emplace.placement.derived_loads import STAGES, derive_loads
from emplace.placement.plan import Plan, Question
from emplace.placement.stack import Pace, Stack
from emplace.placement.stages import Stage, stage_lengths_us


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
    return derive_loads(_under(plan, stack, pace), plan.tables, plan.topology()).step_time_us


def stages_under_us(plan: Plan, stack: Stack) -> dict[Stage, float]:
    """How long each stage lasts, likewise."""
    question = _under(plan, stack, Pace.TYPICAL)
    loads_us = derive_loads(question, plan.tables, plan.topology()).stages_us
    return dict(zip(STAGES, stage_lengths_us(loads_us, question.cost_model).tolist(), strict=True))


def _under(plan: Plan, stack: Stack, pace: Pace) -> Question:
    question = plan.sized_question
    return question.model_copy(update={"cost_model": datasheet_cost_model(question.host, stack, pace)})
