"""A plan for another host runs on CPU ranks here, scaled down, and claims only what that can show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emplace.app.importing import import_plan
from emplace.executor.emulation import MAX_EMULATED_ROWS, emulate_plan, emulated_plan
from emplace.executor.errors import NotRunnableHere
from emplace.executor.export import to_torchrec
from emplace.executor.imported import TheirPlan
from emplace.executor.launch import Launch
from emplace.placement.catalog import builtin_host
from emplace.placement.errors import InvalidDocument
from emplace.placement.measurement import Measurement
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data
from tests.executor.plans import build_plan, grid_layouts, make_model, mixed_layouts, table_wise

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


def test_a_cuda_plan_with_uvm_loads_trains_on_a_trace_and_agrees(tmp_path: Path) -> None:
    plan = _uvm_plan(_large_model(optimizer="adam"))
    trace, workdir, told = _recorded(tmp_path / "recorded.csv"), tmp_path / "work", list[str]()
    workdir.mkdir()
    measurement = emulate_plan(plan, Launch(steps=3, seed=7, workdir=workdir, timeout_s=240, report=told.append, trace=trace))
    assert list(workdir.iterdir()) == []
    assert measurement.trace == "recorded.csv"
    assert "feature friends: 300 of 300 ids are beyond its table's 100,000 rows; taken modulo" in told
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


def test_an_emulation_that_does_otherwise_does_not_hold(tmp_path: Path) -> None:
    model = make_model("moved")
    plan = build_plan(model, builtin_host("dgx-h100"), mixed_layouts(model), ranks=2)
    program = ["tests.executor.programs.wrong_rank"]
    measurement = emulate_plan(plan, Launch(steps=2, seed=7, workdir=tmp_path, timeout_s=240, program=program))
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
