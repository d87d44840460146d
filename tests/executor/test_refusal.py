"""Plans that can't run here are refused before anything starts, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from emplace.executor.emulation import emulate_plan
from emplace.executor.errors import NotRunnableHere
from emplace.executor.launch import Launch
from emplace.executor.refusal import refuse_foreign
from emplace.executor.run import run_plan
from emplace.placement.catalog import builtin_host
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import DataType, Precision
from emplace.placement.plan import Plan, PlanStatus
from tests.executor.plans import build_plan, make_model, mixed_layouts, row_wise, table_wise

pytestmark = pytest.mark.torch


@pytest.fixture
def plan(here: HostSpec) -> Plan:
    model = make_model()
    return build_plan(model, here, mixed_layouts(model), ranks=2)


def _for(host: HostSpec, ranks: int) -> Plan:
    model = make_model()
    return build_plan(model, host, {table.name: table_wise(table, index) for index, table in enumerate(model.tables)}, ranks=ranks)


def _refused(plan: Plan, workdir: Path) -> str:
    with pytest.raises((NotRunnableHere, InvalidDocument)) as refusal:
        run_plan(plan, Launch(steps=10, seed=0, workdir=workdir, timeout_s=10))
    assert list(workdir.iterdir()) == []
    return str(refusal.value)


def test_a_sound_local_plan_is_not_refused(plan: Plan, here: HostSpec) -> None:
    refuse_foreign(plan, here)


def test_devices_that_are_not_here(tmp_path: Path) -> None:
    assert _refused(_for(builtin_host("dgx-h100"), 8), tmp_path).startswith("8 CUDA devices needed, 0 here; --emulate")


def test_a_host_from_datasheets(tmp_path: Path) -> None:
    assert "cpu-dual-socket, a host from datasheets" in _refused(_for(builtin_host("cpu-dual-socket"), 8), tmp_path)


def test_another_machine(here: HostSpec, tmp_path: Path) -> None:
    elsewhere = here.model_copy(update={"fingerprint": "sha256:other"})
    model = make_model()
    refusal = _refused(build_plan(model, elsewhere, mixed_layouts(model), ranks=2), tmp_path)
    assert "sha256:other" in refusal
    assert str(here.fingerprint) in refusal


def test_no_placement(plan: Plan, tmp_path: Path) -> None:
    assert "infeasible" in _refused(plan.model_copy(update={"status": PlanStatus.INFEASIBLE}), tmp_path)


def test_adam_on_a_cpu(here: HostSpec, tmp_path: Path) -> None:
    model = make_model(optimizer="adam")
    assert "optimizer adam runs on CUDA only" in _refused(build_plan(model, here, mixed_layouts(model), ranks=2), tmp_path)


@pytest.mark.parametrize("data_type", ["bf16", "int8"])
def test_data_types_that_can_not_train(here: HostSpec, tmp_path: Path, data_type: str) -> None:
    model = make_model()
    odd = model.tables[1].model_copy(update={"data_type": DataType(data_type)})
    model = model.model_copy(update={"tables": (model.tables[0], odd, *model.tables[2:])})
    refusal = _refused(build_plan(model, here, mixed_layouts(model), ranks=2), tmp_path)
    assert refusal.startswith(f"{data_type} tables")
    assert "item" in refusal


def test_rows_that_leave_a_rank_without_any(here: HostSpec, tmp_path: Path) -> None:
    """Beside a row of another table of the same lookup there may be none."""
    model = make_model()
    *others, country, tag = model.tables
    model = model.model_copy(update={"tables": (*others, country.model_copy(update={"num_embeddings": 1}), tag)})
    country = model.tables[3]
    beside = mixed_layouts(model) | {"country": row_wise(country, [0, 1])}
    alone = beside | {"page": table_wise(model.tables[2], 1)}
    refuse_foreign(build_plan(model, here, beside, ranks=2), here)
    reason = "row_wise leaves rank 1 no row of country, and FBGEMM can't look up on a CPU"
    assert reason in _refused(build_plan(model, here, alone, ranks=2), tmp_path)
    with pytest.raises(NotRunnableHere, match=reason):
        emulate_plan(build_plan(model, builtin_host("dgx-h100"), alone, ranks=2), Launch(1, seed=0, workdir=tmp_path, timeout_s=10))


def test_a_plan_that_its_audit_rejects(plan: Plan, tmp_path: Path) -> None:
    item = plan.tables[1]
    short = item.model_copy(update={"shards": (item.shards[0].model_copy(update={"rows": (0, 4000)}),)})
    refusal = _refused(plan.model_copy(update={"tables": (plan.tables[0], short, *plan.tables[2:])}), tmp_path)
    assert "4000" in refusal


def test_dense_layers_in_anything_but_fp32(here: HostSpec, tmp_path: Path) -> None:
    model = make_model().model_copy(update={"dense_precision": Precision.TF32})
    said = _refused(build_plan(model, here, mixed_layouts(model), ranks=2), tmp_path)
    assert "dense layers run here in fp32; the model says tf32" in said
