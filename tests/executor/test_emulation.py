"""A plan for another host runs on CPU ranks here, scaled down, and claims only what that can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emplace.app.importing import import_plan
from emplace.executor.emulation import MAX_EMULATED_ROWS, emulate_plan, emulated_plan
from emplace.executor.errors import NotRunnableHere
from emplace.executor.export import to_torchrec
from emplace.executor.imported import TheirPlan
from emplace.executor.job import Job, RankReport
from emplace.executor.launch import Launch
from emplace.executor.run import launch_plans
from emplace.placement.catalog import builtin_host, host_names
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data
from tests.executor.plans import build_plan, grid_layouts, make_model, table_wise

pytestmark = pytest.mark.torch


def _large_model(**changes: Any) -> ModelSpec:
    model = make_model("elsewhere", local_batch_size=4096, **changes)
    user, *others = model.tables
    return model.model_copy(update={"tables": (user.model_copy(update={"num_embeddings": 50_000_001}), *others)})


def _uvm_plan(model: ModelSpec) -> Plan:
    """Every sharding type that knows nodes, on 2 x 2 devices of a dgx-h100; one table in system memory, one with a cache."""
    host = builtin_host("dgx-h100")
    data = to_torchrec(build_plan(model, host, grid_layouts(model), ranks=4, nodes=2))
    data["plan"]["ebc"]["user"] |= {"compute_kernel": "fused_uvm"}
    data["plan"]["ebc"]["item"] |= {"compute_kernel": "fused_uvm_caching", "cache_params": {"load_factor": 0.3}}
    return import_plan(from_data(data, TheirPlan, source="theirs"), "theirs", model, host, PlanOptions())


def _recorded(path: Path) -> Path:
    """300 examples whose `friends` are beyond the rows that are left of the large model."""
    lines = [f"{number % 37},{49_000_000 + number},1;2,3,{number % 37},7" for number in range(300)]
    path.write_text("\n".join(["user,friends,clicks,pages,country,tags", *lines]))
    return path


@dataclass(frozen=True)
class Emulated:
    """A plan that ran as it says: what was said of it, and what its ranks reported."""

    plan: Plan
    measurement: Measurement
    launched: tuple[Job, list[list[RankReport]]]
    told: list[str]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    plan = _uvm_plan(_large_model(optimizer="adam"))
    trace, workdir, told = _recorded(tmp_path_factory.mktemp("trace") / "recorded.csv"), tmp_path_factory.mktemp("work"), list[str]()
    launched: list[tuple[Job, list[list[RankReport]]]] = []

    def launch(plans: Sequence[Plan], launch: Launch) -> tuple[Job, list[list[RankReport]]]:
        launched.append(launch_plans(plans, launch))
        return launched[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emplace.executor.emulation.launch_plans", launch)
        measurement = emulate_plan(plan, Launch(steps=1, seed=7, workdir=workdir, timeout_s=240, report=told.append, trace=trace))
    assert list(workdir.iterdir()) == []
    return Emulated(plan, measurement, launched[0], told)


def test_a_cuda_plan_with_uvm_loads_trains_on_a_trace_and_agrees(emulated: Emulated) -> None:
    plan, measurement = emulated.plan, emulated.measurement
    assert measurement.trace == "recorded.csv"
    assert "feature friends: 300 of 300 ids are beyond its table's 100,000 rows; taken modulo" in emulated.told
    passed = {verdict.name: verdict.passed for verdict in measurement.verdicts}
    assert passed == {"audit": True, "placement": True, "numerics": True, "memory": None, "throughput": None}, measurement.verdicts
    assert {verdict.detail for verdict in measurement.verdicts if verdict.passed is None} == {"not checked: emulated"}
    assert (measurement.verified, measurement.status) == (False, "emulated")
    assert measurement.plan_digest == plan.content_digest()
    assert measurement.step_time_us is None
    assert measurement.throughput_samples_per_s is None
    assert measurement.ranks == ()
    assert from_data(measurement.to_data(), Measurement, source="its own JSON") == measurement
    emulation = measurement.emulated
    assert emulation is not None
    assert emulation.holds
    assert (emulation.rows, emulation.emulated_rows) == (50_000_001 + 36_038, MAX_EMULATED_ROWS + 36_038)
    assert (emulation.local_batch_size, emulation.emulated_local_batch_size) == (4096, 128)
    said = " ".join(emulation.stand_ins)
    for words in ("CUDA devices", "fused_uvm and fused_uvm_caching ran from plain system memory", "adagrad stood in for adam"):
        assert words in said


def test_an_emulation_that_does_otherwise_does_not_hold(emulated: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That ranks report what they hold is seen in test_wrong_execution."""
    job, [[first, *others]] = emulated.launched
    moved = first.held[0].model_copy(update={"rank": 3})
    reports = [first.model_copy(update={"held": (moved, *first.held[1:])}), *others]
    monkeypatch.setattr("emplace.executor.emulation.launch_plans", lambda *_: (job, [reports]))
    measurement = emulate_plan(emulated.plan, Launch(steps=1, seed=7, workdir=tmp_path, timeout_s=240))
    assert [verdict.name for verdict in measurement.verdicts if verdict.passed is False] == ["placement"]
    assert measurement.emulated is not None
    assert (measurement.emulated.holds, measurement.status) == (False, "not verified")


def test_what_is_emulated_is_the_same_placement() -> None:
    plan = _uvm_plan(_large_model())
    small = emulated_plan(plan)
    for before, after in zip(plan.tables, small.tables, strict=True):
        assert (after.sharding_type, after.compute_kernel, after.cache_load_factor) == (
            before.sharding_type,
            before.compute_kernel,
            before.cache_load_factor,
        )
        assert [(shard.rank, shard.columns) for shard in after.shards] == [(shard.rank, shard.columns) for shard in before.shards]
    exported = to_torchrec(small)
    assert (exported["world_size"], exported["local_world_size"]) == (4, 2)
    placements = [
        shard["placement"] for table in exported["plan"]["ebc"].values() for shard in (table["sharding_spec"] or {"shards": []})["shards"]
    ]
    assert {placement.partition("/")[2] for placement in placements} == {"cpu"}


@pytest.mark.parametrize("name", host_names())
def test_any_built_in_host_has_a_cpu_host_in_its_place(name: str) -> None:
    model, host = make_model(), builtin_host(name)
    plan = build_plan(model, host, {table.name: table_wise(table, 0) for table in model.tables}, ranks=1)
    emulated = HostSpec.model_validate(emulated_plan(plan).question.host.to_data())
    assert not emulated.has_cuda
    assert emulated.num_devices == host.num_devices


def test_what_can_not_be_emulated_is_refused(tmp_path: Path) -> None:
    model = make_model()
    layouts = {table.name: table_wise(table, 0) for table in model.tables}
    many = build_plan(model, builtin_host("dgx-h100"), layouts, ranks=24, nodes=3)
    with pytest.raises(NotRunnableHere, match="has 24 ranks; an emulation runs at most 16"):
        emulate_plan(many, Launch(steps=3, seed=7, workdir=tmp_path, timeout_s=10))
    plan = build_plan(model, builtin_host("dgx-h100"), layouts, ranks=2)
    with pytest.raises(InvalidDocument, match="step_time_us"):
        emulate_plan(plan.model_copy(update={"step_time_us": 1.0}), Launch(steps=3, seed=7, workdir=tmp_path, timeout_s=10))


def test_a_refused_plan_is_pointed_to_the_emulation(tmp_path: Path) -> None:
    from emplace.executor.run import run_plan

    plan = _uvm_plan(_large_model())
    with pytest.raises(NotRunnableHere, match=r"^4 CUDA devices needed, 0 here; --emulate checks"):
        run_plan(plan, Launch(steps=3, seed=7, workdir=tmp_path, timeout_s=10))
