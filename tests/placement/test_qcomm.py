"""Vectors and gradients that are sent in fewer bytes than they are put out in."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.face import plan
from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.id_order import RowShare
from emplace.placement.model import ComputeKernel, DataType, ModelSpec, Optimizer, ShardingType
from emplace.placement.qcomm import CommPrecision
from emplace.placement.reading import from_data
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import Stage, shard_stages_us
from emplace.placement.workload import Objective, ShardWorkload, model_loads, shard_workload
from tests.placement.example_load import topology
from tests.placement.example_models import gpu_host, model_data
from tests.placement.naive_plan import naive_plan

COLUMNS = 16
SENT = {"forward_precision": "fp16", "backward_precision": "fp8"}
SPLIT_ROWS = [ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD]


def spec(qcomm: dict[str, str] | None = None, **module: Any) -> ModelSpec:
    """Its tables name no module: there is one."""
    data = model_data() | {"modules": [{"path": "ebc"} | module | ({} if qcomm is None else {"qcomm": qcomm})]}
    return from_data(data, ModelSpec, source="model")


def work(model: ModelSpec, kind: ShardingType) -> ShardWorkload:
    return shard_workload(model_loads(model, topology(), Objective.MEAN)[0], kind, RowShare.even(1.0), COLUMNS, topology(), on_server=False)


def test_tables_need_not_name_the_only_module() -> None:
    half = spec(output_data_type="fp16")
    assert {half.module_of(table).output_data_type for table in half.tables} == {DataType.FP16}


@pytest.mark.parametrize("precision", ["int8", "tf32", None])
def test_an_unknown_precision_is_refused(precision: str | None) -> None:
    with pytest.raises(InvalidDocument) as caught:
        spec({"forward_precision": precision})  # type: ignore[dict-item]
    assert [broken.pointer for broken in caught.value.broken_rules] == ["/modules/0/qcomm/forward_precision"]


@pytest.mark.parametrize("kind", [ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE])
def test_each_way_has_its_own_bytes(kind: ShardingType) -> None:
    plain, sent = work(spec(), kind), work(spec(SENT), kind)
    assert sent.input_bytes == plain.input_bytes
    assert sent.output_bytes == pytest.approx([each / 2 for each in plain.output_bytes])
    assert sent.gradient_bytes == pytest.approx([each / 4 for each in plain.output_bytes])
    assert plain.converted_bytes == (0, 0)
    assert sent.converted_bytes == (plain.vectors * COLUMNS * 2 * (4 + 2), plain.vectors * COLUMNS * 2 * (4 + 1))


@pytest.mark.parametrize("kind", SPLIT_ROWS)
def test_sums_are_not_reduced_in_fp8(kind: ShardingType) -> None:
    plain, sent = work(spec(), kind), work(spec(SENT), kind)
    assert sent.output_bytes == sent.gradient_bytes == pytest.approx([each / 2 for each in plain.output_bytes])


def test_what_is_put_out_in_fewer_bytes_is_sent_so() -> None:
    half = work(spec({"forward_precision": "fp32", "backward_precision": "bf16"}, output_data_type="fp16"), ShardingType.TABLE_WISE)
    assert half.output_bytes == half.gradient_bytes
    assert half.converted_bytes == (0, 0)


def test_converting_takes_memory_for_copies_and_time() -> None:
    """A vector of 16 floats, clamped, and in fp16: 10 bytes a value; one that is sent as it is is copied."""
    plain, sent = work(spec(), ShardingType.TABLE_WISE), work(spec(SENT), ShardingType.TABLE_WISE)
    assert (plain.peak.copied_bytes, sent.peak.copied_bytes) == (4, 4 + 2)
    cost, host = datasheet_cost_model(builtin_host("dgx-a100-40g")), builtin_host("dgx-a100-40g")
    sharding = TableSharding(ShardingType.TABLE_WISE, ComputeKernel.FUSED, DataType.FP32, Optimizer.SGD)
    free = cost.model_copy(update={"per_converted_byte_us": None})
    device = host.node.devices[0].kind
    priced, unpriced = (shard_stages_us(each, device, sharding, ShardShape(4000, COLUMNS), sent) for each in (cost, free))
    for stage, converted in ((Stage.OUTPUT_DIST, sent.converted_bytes[0]), (Stage.GRADIENT_DIST, sent.converted_bytes[1])):
        assert priced[stage] - unpriced[stage] == pytest.approx(converted * (cost.per_converted_byte_us or 0.0))
    assert priced[Stage.INPUT_DIST] == unpriced[Stage.INPUT_DIST]


@pytest.mark.parametrize("precision", [each for each in CommPrecision if each is not CommPrecision.FP32])
def test_a_plan_over_a_slow_network_is_faster_for_it_and_audited(precision: CommPrecision) -> None:
    data = builtin_host("dgx-a100-40g").to_data() | {"nodes": 2}
    data["node"]["network"] = "10Gbit/s"
    host, tables = HostSpec.model_validate(data), ["table_wise", "column_wise"]
    for table in (model := spec().to_data())["tables"]:
        table["constraints"] = {"sharding_types": tables, "tiers": ["hbm"]}
    model["local_batch_size"] = 8192
    qcomm = {"forward_precision": precision, "backward_precision": precision}
    narrow = model | {"modules": [{"path": "ebc", "qcomm": qcomm}]}
    plain, sent = (plan(from_data(each, ModelSpec, source="model"), host, work_limit=0.5) for each in (model, narrow))
    for made in (plain, sent):
        assert audit(made) == []
    stages = [max(rank.stages_us[Stage.OUTPUT_DIST] for rank in made.ranks) for made in (plain, sent)]
    assert stages[1] < 0.8 * stages[0]
    assert plain.lower_bound_us is not None
    assert sent.step_time_us is not None
    assert sent.step_time_us < plain.lower_bound_us


def test_what_servers_send_is_narrower_too() -> None:
    """Audited against loads that were added up one shard at a time."""
    choice = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
    model = spec(SENT)
    made = naive_plan(model, gpu_host(), [choice] * len(model.tables), with_servers=True)
    assert audit(made) == []
    output, gradient = (max(rank.stages_us[stage] for rank in made.ranks) for stage in (Stage.OUTPUT_DIST, Stage.GRADIENT_DIST))
    assert gradient < output


def test_it_changes_what_a_model_is() -> None:
    assert spec().content_digest() != spec(SENT).content_digest()
    assert "qcomm" not in spec().to_data()["modules"][0]
