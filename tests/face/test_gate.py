"""A no is said only when it is proven."""

from __future__ import annotations

import pytest

from emplace.gate import Budgets, CheckVerdict, judge
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Plan, PlanOptions
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


@pytest.mark.parametrize(("part", "key"), [("model", "name"), ("cost_model", "digest")])
def test_a_baseline_of_another_model_or_price_is_refused(plan: Plan, part: str, key: str) -> None:
    baseline = plan.model_copy(update={part: getattr(plan, part).model_copy(update={key: "other"})})
    with pytest.raises(InvalidDocument, match=f"/{part}/{key}"):
        judge(plan, Budgets(baseline=baseline, max_regression=5))
