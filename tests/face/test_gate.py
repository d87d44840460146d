"""A no is said only when it is proven."""

from __future__ import annotations

import math

import pytest

from emplace.gate import Budgets, CheckVerdict, enough_us, judge
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Plan, PlanOptions, PlanStatus
from emplace.placement.reading import from_data
from emplace.placement.workload import Objective
from tests.placement.example_models import gpu_host, model
from tests.placement.naive_plan import naive_plan


@pytest.fixture
def plan() -> Plan:
    """A plan of 1000 us, for two ranks of 512 examples each, whose best is proven to take at least 900 us."""
    whole = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
    made = naive_plan(model(local_batch_size=512), gpu_host(), [whole] * 3, PlanOptions(nodes=1, ranks=2))
    return made.model_copy(update={"step_time_us": 1000.0, "lower_bound_us": 900.0, "gap": 0.1})


@pytest.mark.parametrize(
    ("limit_us", "fits", "verdict"),
    [
        (1000.0, True, CheckVerdict.FITS),
        (999.0, None, CheckVerdict.UNDECIDED),
        (900.0, None, CheckVerdict.UNDECIDED),
        (899.0, False, CheckVerdict.OVER_BUDGET),
    ],
)
def test_between_bound_and_plan_nothing_is_decided(plan: Plan, limit_us: float, fits: bool | None, verdict: CheckVerdict) -> None:
    result = judge(plan, Budgets(max_step_time_us=limit_us))
    assert (result.fits, result.verdict) == (fits, verdict)


def test_throughput_is_the_same_limit_the_other_way_round(plan: Plan) -> None:
    examples = 2 * 512
    assert judge(plan, Budgets(min_throughput=examples * 1e6 / 1000)).fits is True
    assert judge(plan, Budgets(min_throughput=examples * 1e6 / 950)).fits is None
    assert judge(plan, Budgets(min_throughput=examples * 1e6 / 890)).fits is False


def test_regression_is_percent_of_the_baseline(plan: Plan) -> None:
    baseline = plan.model_copy(update={"step_time_us": 800.0})
    assert judge(plan, Budgets(baseline=baseline, max_regression=25)).fits is True
    assert judge(plan, Budgets(baseline=baseline, max_regression=24)).fits is None
    assert judge(plan, Budgets(baseline=baseline, max_regression=12)).fits is False


def test_a_bound_over_the_budget_is_a_no_without_any_plan(plan: Plan) -> None:
    nothing = {"status": PlanStatus.UNDECIDED, "step_time_us": None, "gap": None, "ranks": (), "nodes": (), "tables": ()}
    undecided = plan.model_copy(update=nothing)
    broken = judge(undecided, Budgets(max_step_time_us=899.0))
    assert (broken.fits, broken.verdict) == (False, CheckVerdict.OVER_BUDGET)
    assert broken.summary.endswith("has no placement that keeps max-step-time")
    assert judge(undecided, Budgets(max_step_time_us=900.0)).fits is None
    assert judge(undecided, Budgets(max_step_time_us=1e9)).fits is None


def test_enough_is_the_narrowest_budget(plan: Plan) -> None:
    examples, baseline = 2 * 512, plan.model_copy(update={"step_time_us": 800.0})
    assert enough_us(plan.question, Budgets()) == math.inf
    assert enough_us(plan.question, Budgets(max_step_time_us=700.0, min_throughput=examples * 1e6 / 600)) == pytest.approx(600.0)
    assert enough_us(plan.question, Budgets(max_step_time_us=900.0, baseline=baseline, max_regression=10)) == pytest.approx(880.0)


def test_watts_that_depend_on_the_placement_are_those_of_the_plan(plan: Plan) -> None:
    """One node that draws 1000 W at work and 600 W at rest, half of whose ranks work half of the step: 900 W."""
    node = plan.question.host.node.model_copy(update={"power_w": 1000.0, "idle_power_w": 600.0})
    host = plan.question.host.model_copy(update={"node": node, "remote_servers": None})
    ranks = tuple(rank.model_copy(update={"step_time_us": 1000.0 if rank.rank else 500.0}) for rank in plan.ranks)
    timed = plan.model_copy(update={"question": plan.question.model_copy(update={"host": host}), "ranks": ranks})
    judged = {watts: judge(timed, Budgets(max_power_w=watts)) for watts in (1000.0, 900.0, 899.0, 599.0)}
    assert {watts: result.fits for watts, result in judged.items()} == {1000.0: True, 900.0: True, 899.0: None, 599.0: False}
    assert judged[899.0].budgets[0].message == "undecided: at most 899 W; the plan found draws 900 W, another may draw 600 W"
    searched = {watts: enough_us(timed.question, Budgets(max_power_w=watts)) for watts in judged}
    assert searched == {1000.0: math.inf, 900.0: None, 899.0: None, 599.0: math.inf}


def test_a_host_without_watts_is_refused_a_budget_of_them(plan: Plan) -> None:
    node = plan.question.host.node.model_copy(update={"power_w": None})
    question = plan.question.model_copy(update={"host": plan.question.host.model_copy(update={"node": node})})
    with pytest.raises(InvalidDocument, match="/node/power_w: is needed for a budget in watts"):
        enough_us(question, Budgets(max_power_w=1.0))


def test_what_is_enough_for_the_fewest_devices_may_depend_on_their_number(plan: Plan) -> None:
    options = plan.question.options.model_copy(update={"objective": Objective.DEVICES})
    fewest = plan.question.model_copy(update={"options": options})
    assert enough_us(fewest, Budgets(max_step_time_us=700.0)) == pytest.approx(700.0)
    assert enough_us(fewest, Budgets(min_throughput=1.0)) is None
    assert enough_us(fewest, Budgets(baseline=plan, max_regression=5)) is None


def test_a_baseline_that_is_not_comparable_is_refused_before_any_solve(plan: Plan) -> None:
    baseline = plan.model_copy(update={"host": plan.host.model_copy(update={"name": "other"})})
    with pytest.raises(InvalidDocument, match="/host/name"):
        enough_us(plan.question, Budgets(baseline=baseline, max_regression=5))


@pytest.mark.parametrize(("part", "key"), [("model", "name"), ("cost_model", "digest")])
def test_a_baseline_of_another_model_or_price_is_refused(plan: Plan, part: str, key: str) -> None:
    baseline = plan.model_copy(update={part: getattr(plan, part).model_copy(update={key: "other"})})
    with pytest.raises(InvalidDocument, match=f"/{part}/{key}"):
        judge(plan, Budgets(baseline=baseline, max_regression=5))


@pytest.mark.parametrize("value", [1, 1.0, "yes", "true"])
def test_whether_budgets_must_be_sure_is_true_or_false(value: object) -> None:
    with pytest.raises(InvalidDocument, match="/sure: must be true or false"):
        from_data({"sure": value}, Budgets, source="budgets")
    assert from_data({"sure": True}, Budgets, source="budgets").sure is True
