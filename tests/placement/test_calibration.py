"""One measured step moves the figures that it says something of, and no others."""

from __future__ import annotations

import pytest

from emplace.placement.calibration import calibrated
from emplace.placement.catalog import builtin_stack
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.derived_loads import derive_loads
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Plan
from emplace.placement.price_range import step_range
from emplace.placement.stack import Stack
from tests.placement.example_models import gpu_host, model
from tests.placement.naive_plan import naive_plan
from tests.prices import bandwidth_prices

LAUNCHES = {"step_us", "step_feature_us", "step_layer_us"}


def planned(batch: int) -> Plan:
    spec = model(local_batch_size=batch)
    fused = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
    return naive_plan(spec, gpu_host(), [fused] * 3, cost_model=datasheet_cost_model(gpu_host()))


def lasts_us(plan: Plan, stack: Stack) -> float:
    question = plan.question.model_copy(update={"cost_model": datasheet_cost_model(plan.question.host, stack)})
    return derive_loads(question, plan.tables, plan.topology()).step_time_us


@pytest.mark.parametrize("batch", [64, 65_536])
@pytest.mark.parametrize("times", [0.8, 1.0, 1.3])
def test_the_plan_lasts_as_long_as_was_measured(batch: int, times: float) -> None:
    plan = planned(batch)
    assert plan.step_time_us is not None
    found = calibrated(plan, plan.step_time_us * times)
    assert lasts_us(plan, found.stack) == pytest.approx(plan.step_time_us * times, rel=1e-3)
    assert (found.place > 0) is (times > 1) or times == 1
    assert found.stack.name == "torchrec-eager-calibrated"


def test_figures_that_the_step_says_nothing_of_stay() -> None:
    before = builtin_stack("torchrec-eager")
    of_launches, of_devices = calibrated(planned(64), 5000.0), calibrated(planned(65_536), (planned(65_536).step_time_us or 0.0) * 1.1)
    assert set(of_launches.moved) == LAUNCHES
    assert of_devices.moved
    assert not LAUNCHES & set(of_devices.moved)
    for found in (of_launches, of_devices):
        for key, value in found.stack:
            assert (value == getattr(before, key)) is (key not in (*found.moved, "name")), key


def test_what_is_known_better_has_a_narrower_range() -> None:
    plan = planned(65_536)
    assert plan.step_time_us is not None
    found = calibrated(plan, plan.step_time_us * 1.2)
    before = step_range(plan)
    question = plan.question.model_copy(update={"cost_model": datasheet_cost_model(plan.question.host, found.stack)})
    after = step_range(plan.model_copy(update={"question": question}))
    assert before is not None
    assert after is not None
    assert after.fast_us < plan.step_time_us * 1.2 < after.slow_us
    assert after.slow_us / after.fast_us < 0.85 * before.slow_us / before.fast_us


def test_a_step_that_no_figure_explains_is_refused() -> None:
    plan = planned(64)
    for step_us in (100.0, 1e6):
        with pytest.raises(InvalidDocument, match="outside the range of torchrec-eager"):
            calibrated(plan, step_us)


def test_only_prices_of_a_stack_can_be_calibrated() -> None:
    fused = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
    plan = naive_plan(model(), gpu_host(), [fused] * 3, cost_model=bandwidth_prices(gpu_host()))
    with pytest.raises(InvalidDocument, match="datasheet prices of a software stack"):
        calibrated(plan, 1000.0)
