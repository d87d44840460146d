"""Each verdict passes on what is right and fails, saying why, on what is not."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from emplace.executor.job import HeldShard, RankReport, UpdateError
from emplace.executor.verdicts import (
    MEMORY_ALLOWANCE_BYTES,
    allowed_error,
    median_interval,
    memory_verdict,
    numerics_verdict,
    placement_verdict,
    throughput_verdict,
)
from emplace.placement.cost_model import CostSource, Regime, Residual
from emplace.placement.host import HostSpec
from emplace.placement.measurement import ReferenceTimes
from emplace.placement.model import DataType
from emplace.placement.plan import Plan
from emplace.runtime.software import software_versions
from tests.executor.plans import build_plan, make_model, mixed_layouts
from tests.placement.example_models import gpu_host
from tests.prices import bandwidth_prices


@pytest.fixture
def plan(here: HostSpec) -> Plan:
    model = make_model()
    return build_plan(model, here, mixed_layouts(model), ranks=2)


def _held(plan: Plan) -> list[HeldShard]:
    return [
        HeldShard(
            table=table.name,
            sharding_type=table.sharding_type,
            compute_kernel=table.compute_kernel,
            rank=shard.rank,
            rows=shard.rows,
            columns=shard.columns,
        )
        for table in plan.tables
        for shard in table.shards
    ]


def test_placement_as_planned(plan: Plan) -> None:
    assert placement_verdict(plan, _held(plan)).passed


@pytest.mark.parametrize(
    "change",
    [{"rank": 1}, {"rows": (0, 4999)}, {"columns": (0, 12)}, {"sharding_type": "row_wise"}, {"compute_kernel": "dense"}],
)
def test_placement_that_differs(plan: Plan, change: dict[str, Any]) -> None:
    held = _held(plan)
    index = next(index for index, shard in enumerate(held) if shard.table == "item")
    held[index] = held[index].model_copy(update=change)
    verdict = placement_verdict(plan, held)
    assert not verdict.passed
    assert "missing: item" in verdict.detail
    assert "not in the plan: item" in verdict.detail


def test_a_shard_that_nobody_holds(plan: Plan) -> None:
    verdict = placement_verdict(plan, _held(plan)[:-1])
    assert not verdict.passed
    assert "missing: tag" in verdict.detail


def test_numerics_is_judged_by_the_worst_table(plan: Plan) -> None:
    good = UpdateError(parameter="table a", relative_error=1e-6, relative_update=0.1)
    bad = UpdateError(parameter="table b", relative_error=0.01, relative_update=0.1)
    assert numerics_verdict(plan, [good]).passed
    assert not numerics_verdict(plan, [good, bad]).passed
    assert "table b" in numerics_verdict(plan, [good, bad]).detail


def test_half_precision_may_round(here: HostSpec) -> None:
    model = make_model()
    half = model.model_copy(update={"tables": (model.tables[0].model_copy(update={"data_type": DataType.FP16}), *model.tables[1:])})
    plan = build_plan(half, here, mixed_layouts(half), ranks=2)
    rounded, misplaced = (UpdateError(parameter="table user", relative_error=error, relative_update=0.1) for error in (0.01, 0.1))
    assert numerics_verdict(plan, [rounded]).passed
    assert not numerics_verdict(plan, [misplaced]).passed


def test_numerics_without_any_update_proves_nothing(plan: Plan) -> None:
    assert not numerics_verdict(plan, [UpdateError(parameter="table a", relative_error=0.0, relative_update=0.0)]).passed


def _report(rank: int, peak_bytes: int) -> RankReport:
    return RankReport(rank=rank, step_times_us=(1.0,), stages_us={}, peak_bytes=peak_bytes, held=(), backend="gloo", software={})


def test_memory_is_judged_by_the_rank_closest_to_its_limit(plan: Plan) -> None:
    allowed = int(plan.ranks[1].ddr_bytes * 1.05) + MEMORY_ALLOWANCE_BYTES
    assert memory_verdict(plan, [_report(0, 0), _report(1, allowed)]).passed
    verdict = memory_verdict(plan, [_report(0, 0), _report(1, allowed + 2)])
    assert not verdict.passed
    assert verdict.detail.startswith("rank 1")
    assert verdict.detail.endswith("5% and 64 MiB more")


def test_the_median_interval_covers_the_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        interval = median_interval(rng.exponential(size=25))
        assert interval is not None
        covered += interval[0] <= np.log(2) <= interval[1]
    assert 0.94 <= covered / 2000 <= 0.99


def test_too_few_steps(plan: Plan) -> None:
    verdict = throughput_verdict(plan, np.full(5, 100.0))
    assert not verdict.passed
    assert "too few" in verdict.detail


def test_unstable_steps(plan: Plan) -> None:
    assert throughput_verdict(plan, np.full(20, 100.0)).passed
    assert not throughput_verdict(plan, np.tile([50.0, 150.0], 10)).passed


def test_a_datasheet_prediction_is_shown_but_not_judged(plan: Plan) -> None:
    assert plan.step_time_us is not None
    verdict = throughput_verdict(plan, np.full(20, 100 * plan.step_time_us))
    assert verdict.passed
    assert "(-99%) from a datasheet cost model" in verdict.detail


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.3, True), (1.4, False), (1.9, False), (0.82, True), (0.78, False)])
def test_a_measured_prediction_is_judged(plan: Plan, factor: float, passed: bool) -> None:
    measured = plan.model_copy(update={"cost_model": plan.cost_model.model_copy(update={"source": CostSource.MEASURED})})
    assert plan.step_time_us is not None
    verdict = throughput_verdict(measured, np.full(20, factor * plan.step_time_us))
    assert verdict.passed is passed
    assert "25% allowed" in verdict.detail
    assert ("profile again" in verdict.detail) is not passed
    assert "extrapolated" not in verdict.detail
    beyond = measured.model_copy(update={"extrapolated": ("more rows than were measured",)})
    assert ("extrapolated" in throughput_verdict(beyond, np.full(20, factor * plan.step_time_us)).detail) is not passed
    assert throughput_verdict(measured, np.full(20, factor * plan.step_time_us), allowed=0.5).passed
    assert throughput_verdict(measured, np.full(20, factor * plan.step_time_us), allowed=0.01).passed is (factor == 1)


def test_a_prediction_that_is_off_names_other_software_than_it_was_measured_with(plan: Plan) -> None:
    assert plan.step_time_us is not None
    prices = plan.question.cost_model.model_copy(update={"software": software_versions() | {"torch": "1.0"}})
    measured = plan.model_copy(
        update={
            "cost_model": plan.cost_model.model_copy(update={"source": CostSource.MEASURED}),
            "question": plan.question.model_copy(update={"cost_model": prices}),
        }
    )
    detail = throughput_verdict(measured, np.full(20, 2 * plan.step_time_us)).detail
    assert f"the cost model was measured with torch 1.0 ({version('torch')} is installed here); " in detail
    assert "the cost model" not in throughput_verdict(measured, np.full(20, plan.step_time_us)).detail


def test_a_prediction_is_judged_at_the_machines_present_speed(plan: Plan) -> None:
    measured = plan.model_copy(update={"cost_model": plan.cost_model.model_copy(update={"source": CostSource.MEASURED})})
    assert plan.step_time_us is not None
    steps = np.full(20, 1.9 * plan.step_time_us)
    slower, as_before = (ReferenceTimes(profiled_us=100.0, before_us=now, between_us=now, after_us=now + 50.0) for now in (190.0, 100.0))
    assert throughput_verdict(measured, steps, slower).passed
    assert not throughput_verdict(measured, steps, as_before).passed
    assert not throughput_verdict(measured, np.full(20, plan.step_time_us), slower).passed
    unmoved = slower.model_copy(update={"exponent": 0.0})
    assert throughput_verdict(measured, np.full(20, plan.step_time_us), unmoved).passed


@pytest.mark.parametrize(("worst", "allowed"), [(None, 0.25), (0.6, 0.25), (0.18, 0.18), (0.02, 0.1)])
def test_a_prediction_may_be_off_by_what_the_cost_model_says_of_whole_steps(worst: float | None, allowed: float) -> None:
    cost = bandwidth_prices(gpu_host())
    if worst is not None:
        stated = Residual(what="whole steps", points=20, mape=worst / 3, median=worst / 3, worst=worst)
        of_work = stated.model_copy(update={"regime": Regime.WORK, "worst": 0.9})
        other = stated.model_copy(update={"what": "dense layers", "worst": 0.9})
        cost = cost.model_copy(update={"residuals": (stated, of_work, other)})
    assert allowed_error(cost) == pytest.approx(allowed)
