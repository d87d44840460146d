"""Steps as Emplace plans and prices them, under a named stack."""

from __future__ import annotations

from typing import Any

from emplace.placement.catalog import builtin_host, builtin_stack
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.placement.price_range import step_range
from emplace.planning import answer

SOLVE_SECONDS = 2.0
"""The limit of each solve, as counted work, so that the page is the same on any machine."""


def host_of(name: str, nodes: int) -> HostSpec:
    """So many of a built-in host's nodes."""
    return builtin_host(name).model_copy(update={"nodes": nodes})


def question_of(model: dict[str, Any], host: HostSpec, stack: str, gpus: int) -> Question:
    """The question that a publication answered by training."""
    return Question(
        model=ModelSpec.model_validate({"schema_version": 1, **model}),
        host=host,
        cost_model=datasheet_cost_model(host, builtin_stack(stack)),
        options=PlanOptions(ranks=gpus, work_limit=SOLVE_SECONDS),
    )


def predicted_ms(question: Question) -> tuple[float, float, float]:
    """(typical, fast, slow) step of Emplace's own plan: which one was trained is not published."""
    plan: Plan = answer(question)
    spread = step_range(plan)
    if plan.step_time_us is None or spread is None:
        raise ValueError(f"{question.model.name} on {question.host.name}: {plan.status}")
    return plan.step_time_us / 1e3, spread.fast_us / 1e3, spread.slow_us / 1e3
