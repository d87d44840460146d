"""The check: does a model fit a host, within stated budgets? The command line and `POST /v1/checks` share it.

A "no" is only said when it is proven: no placement exists, or even the lower bound breaks a budget. A plan that breaks
a budget which the bound does not break leaves the answer open. The answer is there as soon as it is certain: who wants
the best plan besides asks for it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from emplace.placement.cost_model import CostSource
from emplace.placement.document import Document, broken_rule
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.memory_use import fullest_memory
from emplace.placement.model import Name
from emplace.placement.plan import Explanation, Plan, PlanStatus, Question, StoppedBy
from emplace.placement.power import plan_power_w, power_range_w
from emplace.placement.price_range import StepRange, step_range
from emplace.placement.workload import Objective

_ROUNDING = 1e-9
"""As a share of a step time."""


class CheckVerdict(StrEnum):
    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    OVER_BUDGET = "over_budget"
    UNDECIDED = "undecided"


def _with_its_margin(schema: dict[str, Any]) -> None:
    """In the schema, too: a baseline is a plan with a placement, and goes with max_regression."""
    placed = {"type": "object", "properties": {"step_time_us": {"type": "number"}}, "required": ["step_time_us"]}
    neither = {"baseline": {"type": "null"}, "max_regression": {"type": "null"}}
    both = {"baseline": placed, "max_regression": {"type": "number"}}
    schema["anyOf"] = [{"properties": neither}, {"properties": both, "required": list(both)}]


class Budgets(Document):
    """The budgets that a plan must keep. One that is absent allows anything."""

    model_config = ConfigDict(json_schema_extra=_with_its_margin)

    max_step_time_us: Annotated[float, Field(strict=True, gt=0)] | None = None
    min_throughput: Annotated[float, Field(strict=True, gt=0)] | None = None
    """Examples per second of all trainers together."""
    baseline: Plan | None = None
    max_regression: Annotated[float, Field(strict=True, ge=0)] | None = None
    """Percent by which the step may take longer than the baseline's."""
    max_power_w: Annotated[float, Field(strict=True, gt=0)] | None = None
    """Watts of all servers of the job, by what the host document says of them."""
    sure: Annotated[bool, Field(strict=True)] | None = None
    """Whether budgets must hold over the whole range of a step that nobody measured: one that may not is then undecided."""

    @model_validator(mode="after")
    def _baseline_with_its_margin(self) -> Budgets:
        if (self.baseline is None) != (self.max_regression is None):
            raise ValueError("baseline and max_regression go together")
        if self.baseline is not None and self.baseline.step_time_us is None:
            rule = f"must be a plan with a placement; the one of {self.baseline.model.name} is {self.baseline.status}"
            raise broken_rule("/baseline", "", rule)
        return self


class BudgetResult(Document):
    """One budget: `kept` is None while neither the plan keeps it nor the bound proves that none can."""

    rule: str
    kept: bool | None
    sure: bool | None = None
    """Whether that holds over the whole range of a step that nobody measured; absent where prices are measured, or nothing is decided."""
    limit_us: float | None = None
    limit_w: float | None = None
    """The budget itself: the longest step, or watts."""
    message: str


class TightestMemory(Document):
    """The memory that the plan fills most."""

    where: str
    used_bytes: int
    capacity_bytes: int


class CheckResult(Document):
    """The answer for one model. `fits` is true, false (proven) or null (undecided), budgets included."""

    model: Name
    host: Name
    source: str | None = None
    """The file or built-in name that the model came from."""
    line: int | None = None
    """The line of the file at which the first table stands that the explanation names."""
    seconds: float | None = None
    """How long the command took to answer; a service does not say."""
    fits: bool | None
    verdict: CheckVerdict
    summary: str
    budgets: tuple[BudgetResult, ...] = ()
    explanation: Explanation | None = None
    cost_source: CostSource
    step_time_us: float | None = None
    step_range_us: tuple[float, float] | None = None
    """How short and how long the step may be where nothing was measured (placement/price_range.py)."""
    lower_bound_us: float | None = None
    gap: float | None = None
    """How much less than the plan's step the best may take. Of the first plan that is enough it says little (`stopped_by`)."""
    placement_gap: float | None = None
    """The gap over what a placement decides."""
    stopped_by: StoppedBy | None = None
    """Why the solve went no further; `target` where the answer was certain, and nothing better was looked for."""
    throughput_samples_per_s: float | None = None
    tightest_memory: TightestMemory | None = None
    power_w: float | None = None
    """What all servers of the plan's job draw; absent where the host document doesn't say."""


def enough_us(question: Question, budgets: Budgets) -> float | None:
    """How long the step of a plan may take that keeps all budgets, infinity without any: what a solve is to aim at (`Monitor.wanting`).
    None where that depends on the number of devices, which is for the solve to find, where budgets must surely hold, and where watts
    depend on the placement.

    Raises InvalidDocument when the baseline can't be compared with plans of this question, and for ranks that the host can't have.
    """
    if question.options.objective is Objective.DEVICES and (budgets.min_throughput is not None or budgets.baseline is not None):
        return None
    if budgets.sure and question.cost_model.stack is not None:
        return None
    if budgets.max_power_w is not None and not _is_decided(budgets.max_power_w, power_range_w(question)):
        return None
    return min((limit.enough_us for limit in _limits(question, budgets)), default=math.inf)


def judge(plan: Plan, budgets: Budgets) -> CheckResult:
    """Hold an audited plan against the budgets. Raises InvalidDocument when the baseline can't be compared with it."""
    results: tuple[BudgetResult, ...] = ()
    spread = step_range(plan)
    if plan.has_placement or (plan.status is PlanStatus.UNDECIDED and plan.fewest is None):
        results = tuple(_judged(plan, limit, spread, must_be_sure=bool(budgets.sure)) for limit in _limits(plan.sized_question, budgets))
        results += () if budgets.max_power_w is None else (_judge_power(plan, budgets.max_power_w),)
    fits, verdict = _verdict(plan, results)
    return CheckResult(
        model=plan.model.name,
        host=plan.host.name,
        fits=fits,
        verdict=verdict,
        summary=_summary(plan, verdict, results),
        budgets=results,
        explanation=plan.explanation,
        cost_source=plan.cost_model.source,
        step_time_us=plan.step_time_us,
        step_range_us=None if spread is None else (spread.fast_us, spread.slow_us),
        lower_bound_us=plan.lower_bound_us,
        gap=plan.gap,
        placement_gap=plan.placement_gap,
        stopped_by=plan.solver.stopped_by,
        throughput_samples_per_s=plan.throughput_samples_per_s,
        tightest_memory=_tightest_memory(plan),
        power_w=plan_power_w(plan) if plan.has_placement else None,
    )


@dataclass(frozen=True)
class _Limit:
    """A budget as the longest step that keeps it."""

    rule: str
    longest_us: float
    words: str
    examples: int | None = None
    """Examples of a step, where the budget is a rate."""

    @property
    def enough_us(self) -> float:
        """With what sums of the same figures in another order may differ by: a budget of just the best step is kept."""
        return self.longest_us * (1 + _ROUNDING)


def _limits(question: Question, budgets: Budgets) -> list[_Limit]:
    limits = []
    trainers = len(question.topology(with_servers=False).ranks)
    if budgets.max_step_time_us is not None:
        limits.append(_Limit("max-step-time", budgets.max_step_time_us, f"a step of at most {budgets.max_step_time_us:,.1f} us"))
    if budgets.min_throughput is not None:
        examples, words = question.model.local_batch_size * trainers, f"at least {budgets.min_throughput:,.0f} examples/s"
        limits.append(_Limit("min-throughput", examples * 1e6 / budgets.min_throughput, words, examples))
    if budgets.baseline is not None and budgets.max_regression is not None:
        _refuse_incomparable(question, trainers, budgets.baseline)
        step_us = budgets.baseline.step_time_us or 0.0
        words = f"at most {budgets.max_regression:g}% over the baseline's step of {step_us:,.1f} us"
        limits.append(_Limit("max-regression", step_us * (1 + budgets.max_regression / 100), words))
    return limits


def _refuse_incomparable(question: Question, trainers: int, baseline: Plan) -> None:
    # In common for two step times to be comparable, by where a plan says it.
    theirs = _conditions(baseline.model.name, baseline.host.name, baseline.cost_model.digest, baseline.num_trainers)
    ours = _conditions(question.model.name, question.host.name, question.cost_model.content_digest(), trainers)
    problems = [
        BrokenRule(pointer, "", f"{theirs[pointer]} is not comparable with this check's {ours[pointer]}; plan the baseline again")
        for pointer in theirs
        if theirs[pointer] != ours[pointer]
    ]
    if problems:
        raise InvalidDocument(f"baseline {baseline.model.name}", problems)


def _conditions(model: str, host: str, cost_model: str, trainers: int) -> dict[str, str]:
    return {"/model/name": model, "/host/name": host, "/cost_model/digest": cost_model, "/ranks": f"{trainers} trainers"}


def _judged(plan: Plan, limit: _Limit, spread: StepRange | None, *, must_be_sure: bool) -> BudgetResult:
    """The budget at the typical prices, and whether it holds at all others that the stack may have."""
    result = _judge_budget(plan, limit)
    if spread is None or result.kept is None:
        return result
    is_sure = spread.slow_us <= limit.enough_us if result.kept else spread.fast_us > limit.enough_us
    if is_sure:
        return result.model_copy(update={"sure": True})
    doubt = f"not sure: nothing is measured, and this plan's step may take {spread.fast_us:,.1f} to {spread.slow_us:,.1f} us"
    if must_be_sure:
        return result.model_copy(update={"sure": False, "kept": None, "message": f"undecided: {limit.words}; {doubt}"})
    return result.model_copy(update={"sure": False, "message": f"{result.message}; but {doubt}"})


def _judge_budget(plan: Plan, limit: _Limit) -> BudgetResult:
    step_us, bound_us = plan.step_time_us, plan.lower_bound_us or 0.0
    if step_us is not None and step_us <= limit.enough_us:
        kept, message = True, f"kept: {limit.words}"
    elif bound_us > limit.enough_us:
        kept, message = False, f"broken: {limit.words}; {_out_of_reach(limit, bound_us)}"
    else:
        best = "no plan was found" if step_us is None else f"the best plan found takes {step_us:,.1f} us"
        kept, message = None, f"undecided: {limit.words}; {best}, the bound is {bound_us:,.1f} us; a longer limit may decide"
    return BudgetResult(rule=limit.rule, kept=kept, limit_us=limit.longest_us, message=message)


def _is_decided(limit_w: float, power_w: tuple[float, float]) -> bool:
    """Whether every placement keeps the budget, or none does."""
    least_w, most_w = power_w
    return most_w <= limit_w or least_w > limit_w


def _judge_power(plan: Plan, limit_w: float) -> BudgetResult:
    least_w, most_w = power_range_w(plan.sized_question)
    drawn_w = plan_power_w(plan) if plan.has_placement else None
    words = f"at most {limit_w:,.0f} W"
    if most_w <= limit_w or (drawn_w is not None and drawn_w <= limit_w):
        kept, message = True, f"kept: {words}"
    elif least_w > limit_w:
        kept, message = False, f"broken: {words}; its servers draw at least {least_w:,.0f} W"
    else:
        found = "no plan was found" if drawn_w is None else f"the plan found draws {drawn_w:,.0f} W"
        kept, message = None, f"undecided: {words}; {found}, another may draw {least_w:,.0f} W"
    return BudgetResult(rule="max-power", kept=kept, limit_w=limit_w, message=message)


def _out_of_reach(limit: _Limit, bound_us: float) -> str:
    """What is the most that can be reached, in the budget's own unit."""
    if limit.examples is not None:
        return f"no placement reaches more than {limit.examples * 1e6 / bound_us:,.0f}"
    return f"no placement takes less than {bound_us:,.1f} us, {bound_us - limit.longest_us:,.1f} us over the {limit.longest_us:,.1f} us allowed"


def _verdict(plan: Plan, results: tuple[BudgetResult, ...]) -> tuple[bool | None, CheckVerdict]:
    if plan.status is PlanStatus.INFEASIBLE:
        return False, CheckVerdict.DOES_NOT_FIT
    if any(result.kept is False for result in results):
        return False, CheckVerdict.OVER_BUDGET
    if plan.status is PlanStatus.UNDECIDED or any(result.kept is None for result in results):
        return None, CheckVerdict.UNDECIDED
    return True, CheckVerdict.FITS


def _summary(plan: Plan, verdict: CheckVerdict, results: tuple[BudgetResult, ...]) -> str:
    where = f"{plan.model.name} on {plan.host.name}"
    match verdict:
        case CheckVerdict.FITS:
            kept = f" and keeps {len(results)} budget{'s' if len(results) != 1 else ''}" if results else ""
            return f"{where} fits{kept}"
        case CheckVerdict.DOES_NOT_FIT:
            return f"{where} does not fit"
        case CheckVerdict.OVER_BUDGET:
            broken = ", ".join(result.rule for result in results if result.kept is False)
            return f"{where} fits but breaks {broken}" if plan.has_placement else f"{where} has no placement that keeps {broken}"
        case CheckVerdict.UNDECIDED:
            if unsure := [result.rule for result in results if result.kept is None and result.sure is False]:
                return f"{where} fits, but is not sure to keep or to break {', '.join(unsure)}"
            return f"{where} is undecided within {plan.solver.limit:g} s of {plan.solver.limit_kind}"


def _tightest_memory(plan: Plan) -> TightestMemory | None:
    fullest = fullest_memory(plan)
    return None if fullest is None else TightestMemory(**asdict(fullest))
