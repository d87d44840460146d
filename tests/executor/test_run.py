"""Plans really run, one launch for several plans, and every verdict holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from emplace.executor.job import enough_steps
from emplace.executor.launch import Launch
from emplace.executor.run import run_plans
from emplace.placement.audit import audit
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.model import DataType, ModelSpec, ShardingType
from emplace.placement.plan import Plan
from emplace.placement.stages import Stage
from tests.executor.plans import build_plan, every_layout, make_model, make_model_of_seven, mixed_layouts, served_layouts
from tests.prices import bandwidth_prices

pytestmark = pytest.mark.torch

STEPS, ROUNDS = 7, 3
FEW_STEPS = 4


def _run(plans: list[Plan], workdir: Path, told: list[str], steps: int | None = FEW_STEPS, rounds: int = 1) -> list[Measurement]:
    measurements = run_plans(plans, Launch(steps, seed=7, workdir=workdir, timeout_s=240, rounds=rounds, report=told.append))
    assert any("training: step" in line for line in told)
    assert list(workdir.iterdir()) == []
    return measurements


def _assert_right(measurement: Measurement) -> None:
    """The throughput verdict depends on how busy this machine is: its rule is tested in test_verdicts."""
    failed = [verdict for verdict in measurement.verdicts if not verdict.passed and verdict.name != "throughput"]
    assert failed == []
    assert measurement.verified == all(verdict.passed for verdict in measurement.verdicts)
    assert [verdict.name for verdict in measurement.verdicts] == ["audit", "placement", "numerics", "memory", "throughput"]


def test_mixed_plans_that_take_turns_on_two_ranks(here: HostSpec, tmp_path: Path) -> None:
    """Side by side in one launch, the last a hundred times the others' work: each still gets its own steps, times and peak."""
    models = [
        make_model("dot-rowwise"),
        make_model("cat-adagrad", interaction="cat", optimizer="adagrad", top_mlp=[24, 8]),
        make_model("dcn-sgd", interaction="dcn", dcn={"num_layers": 2, "low_rank_dim": 8}, optimizer="sgd"),
        _with_rows(make_model("large-no-dense", dense_features=0, bottom_mlp=[]), "tag", 2**20),
        _in_half(make_model("heavy-half", local_batch_size=64 * 100)),
    ]
    profiled = bandwidth_prices(here).model_copy(update={"ranks": 2, "reference_step_us": 5000.0})
    costs = [profiled, *[None] * (len(models) - 1)]
    plans = [build_plan(model, here, mixed_layouts(model), ranks=2, cost=cost) for model, cost in zip(models, costs, strict=True)]
    told = list[str]()
    measurements = _run(plans, tmp_path, told, STEPS, ROUNDS)
    # The first one's prices were measured beside the reference step, so that is timed between the rounds.
    assert [measurement.reference is not None for measurement in measurements] == [True, *[False] * (len(models) - 1)]
    assert measurements[0].reference is not None
    assert measurements[0].reference.profiled_us == 5000
    for plan, measurement in zip(plans, measurements, strict=True):
        _assert_right(measurement)
        assert measurement.plan_digest == plan.content_digest()
        assert [rank.rank for rank in measurement.ranks] == [0, 1]
        assert all(len(rank.step_times_us) == STEPS == measurement.steps for rank in measurement.ranks)
        assert measurement.step_time_us is not None
        assert measurement.step_time_us >= max(rank.median_step_time_us for rank in measurement.ranks)
        examples = 2 * plan.question.model.local_batch_size
        assert measurement.throughput_samples_per_s == pytest.approx(examples / measurement.step_time_us * 1e6)
        assert set(measurement.ranks[0].stages_us) == set(Stage)
        assert all(spent > 0 for spent in measurement.ranks[0].stages_us.values())

    # The table of the large model on rank 1, with its row-wise state, must show there and only there.
    light, large = measurements[3].ranks
    assert large.peak_bytes - light.peak_bytes == pytest.approx(2**20 * (16 * 4 + 4), rel=0.1)
    assert min(measurements[4].ranks[0].step_times_us) > max(min(each.ranks[0].step_times_us) for each in measurements[:4])

    turns = [line.split(":")[0] for line in told if ": turn " in line]
    rounds = [turns[start : start + len(models)] for start in range(0, len(turns), len(models))]
    assert [sorted(each) for each in rounds] == [sorted(model.name for model in models)] * ROUNDS
    assert rounds[1] == rounds[0][::-1]
    assert rounds[2] not in rounds[:2], "always the same order"


def _with_rows(model: ModelSpec, name: str, rows: int) -> ModelSpec:
    tables = [table.model_copy(update={"num_embeddings": rows}) if table.name == name else table for table in model.tables]
    return model.model_copy(update={"tables": tuple(tables)})


def test_every_sharding_type_on_two_nodes_of_two_ranks(here: HostSpec, tmp_path: Path) -> None:
    model, half = make_model_of_seven("every"), _in_half(make_model_of_seven("every-half"))
    profiled = bandwidth_prices(here).model_copy(update={"ranks": 4, "reference_step_us": 5000.0, "reference_exponent": 0.25})
    on_others = profiled.model_copy(update={"ranks": 2})
    plans = [
        build_plan(model, here, every_layout(model), ranks=4, nodes=2, cost=cost) for model, cost in ((model, profiled), (half, on_others))
    ]
    assert {table.sharding_type for table in plans[0].tables} == set(ShardingType)
    told = list[str]()
    beside, without = _run(plans, tmp_path, told)
    for measurement in (beside, without):
        _assert_right(measurement)
        assert all(len(rank.step_times_us) == measurement.steps == FEW_STEPS for rank in measurement.ranks)
    assert [line for line in told if line.endswith(f": training: step {FEW_STEPS} of {FEW_STEPS}")] == [
        f"every: training: step {FEW_STEPS} of {FEW_STEPS}",
        f"every-half: training: step {FEW_STEPS} of {FEW_STEPS}",
    ]
    # The reference step is timed around and amid the training, where it was profiled on as many ranks.
    assert without.reference is None
    assert beside.reference is not None
    assert beside.reference.profiled_us == 5000
    times_us = (beside.reference.before_us, beside.reference.between_us, beside.reference.after_us)
    assert all(100 < each < 1e6 for each in times_us)
    assert beside.reference.slowness == beside.reference.between_us / 5000, "a run counts all of it, whatever the profile's rounds did"


def _in_half(model: ModelSpec) -> ModelSpec:
    """All tables fp16."""
    tables = [table.model_copy(update={"data_type": DataType.FP16}) for table in model.tables]
    return model.model_copy(update={"tables": tuple(tables)})


def with_servers(host: HostSpec, count: int) -> HostSpec:
    """The host with small CPU servers beside it."""
    servers = {
        "count": count,
        "kind": "parameter-server",
        "ddr_capacity": "4GiB",
        "ddr_reserve": "1GiB",
        "memory_bandwidth": "10GB/s",
        "network": "10Gbit/s",
        "fp32_flops": "50GFLOP/s",
    }
    return HostSpec.model_validate(host.model_dump(exclude_none=True) | {"remote_servers": servers})


@pytest.mark.parametrize(("step_us", "steps"), [(1e3, 200), (15e3, 200), (30e3, 100), (1e5, 30), (1e7, 30)])
def test_steps_of_three_seconds_are_enough(step_us: float, steps: int) -> None:
    assert enough_steps(step_us) == steps


def test_remote_servers_hold_tables_and_feed_nothing(here: HostSpec, tmp_path: Path) -> None:
    """Two trainers and two servers: tables on either side, one cut into columns over both servers, in fp32 and fp16."""
    host = with_servers(here, 2)
    models = [make_model("served"), _in_half(make_model("served-half", interaction="cat", optimizer="sgd"))]
    plans = [build_plan(model, host, served_layouts(model), ranks=2) for model in models]
    for plan, measurement in zip(plans, _run(plans, tmp_path, [], steps=None), strict=True):
        assert audit(plan) == []
        _assert_right(measurement)
        times_us = [rank.step_times_us for rank in measurement.ranks]
        assert {len(each) for each in times_us} == {measurement.steps}
        assert 30 < measurement.steps <= 200, "steps of milliseconds: more than the fewest"
        assert len(measurement.ranks) == 4
        assert measurement.step_time_us is not None
        # Servers train no examples of their own.
        assert measurement.throughput_samples_per_s == pytest.approx(2 * 64 / measurement.step_time_us * 1e6)
