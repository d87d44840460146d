"""Modules of a model: what is refused, what documents without them mean, and what sequences are counted as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emplace.face import plan
from emplace.placement.audit import audit
from emplace.placement.errors import InvalidDocument
from emplace.placement.id_order import RowShare
from emplace.placement.memory import rank_bytes, shard_bytes
from emplace.placement.model import ComputeKernel, DataType, ModelSpec, Optimizer, ShardingType
from emplace.placement.reading import from_data
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import shard_stages_us
from emplace.placement.workload import Objective, ShardWorkload, TableLoad, model_loads, shard_workload
from tests.placement.example_load import topology
from tests.placement.example_models import gpu_host, model_data
from tests.prices import bandwidth_prices

BATCH, RANKS, COLUMNS = 64, 8, 16


def mixed(length: dict[str, Any] | None = None, **module: Any) -> dict[str, Any]:
    """Two tables of 16 columns: `page` is pooled, `history` is in a module of its own."""
    pages = {"name": "page", "num_embeddings": 4000, "embedding_dim": COLUMNS, "features": [{"name": "page", "length": {"fixed": 1}}]}
    history = pages | {"name": "history", "features": [{"name": "clicks", "length": length or {"poisson": 20}}]}
    modules = [{"path": "sparse.ebc"}, {"path": "sparse.ec", "pooling": "none"} | module]
    tables = [pages | {"module": "sparse.ebc"}, history | {"module": "sparse.ec"}]
    return model_data() | {"modules": modules, "tables": tables}


def read(data: dict[str, Any]) -> ModelSpec:
    return from_data(data, ModelSpec, source="model")


def history(length: dict[str, Any] | None = None, objective: Objective = Objective.MEAN, **module: Any) -> TableLoad:
    return model_loads(read(mixed(length, **module)), topology(), objective)[1]


def work(load: TableLoad, kind: ShardingType, share: float = 1.0) -> ShardWorkload:
    return shard_workload(load, kind, RowShare.even(share), COLUMNS, topology(), on_server=False)


def test_a_model_without_modules_says_nothing_of_them() -> None:
    spec = read(model_data())
    assert "modules" not in spec.to_data()
    assert all("module" not in table for table in spec.to_data()["tables"])
    assert {spec.module_of(table).path for table in spec.tables} == {"ebc"}


@pytest.mark.parametrize(
    ("change", "pointer", "rule"),
    [
        (
            {"tables": {1: {"module": None}}},
            "/tables/1/module",
            "is required, because the model names several modules: sparse.ebc, sparse.ec",
        ),
        ({"tables": {1: {"module": "ec"}}}, "/tables/1/module", "must be the path of a module; the model names sparse.ebc, sparse.ec"),
        ({"tables": {1: {"module": "sparse.ebc"}}}, "/modules/1", "has no table"),
        ({"modules": {1: {"path": "sparse.ebc"}}}, "/modules/1/path", "must be unique"),
        ({"modules": {1: {"path": "sparse..ec"}}}, "/modules/1/path", "pattern"),
        ({"modules": {0: {"index_dedup": True}}}, "/modules/0/index_dedup", "goes with pooling none only, here is pooling sum"),
        ({"modules": {0: {"column_width": 8}}}, "/modules/0/column_width", "goes with pooling none only, here is pooling sum"),
        ({"modules": {1: {"column_width": 6}}}, "/modules/1/column_width", "multiple of 4"),
        ({"modules": {1: {"column_width": 12}}}, "/modules/1/column_width", "must cut the embedding_dim of 16 into several pieces"),
        ({"modules": {1: {"column_width": 16}}}, "/modules/1/column_width", "must cut the embedding_dim of 16 into several pieces"),
        ({"modules": {1: {"output_data_type": "int8"}}}, "/modules/1/output_data_type", "must be one of fp32, fp16, bf16"),
        ({"tables": {0: {"module": "sparse.ec", "embedding_dim": 32}}, "modules": {0: None}}, "/modules/0", "they are 16, 32"),
        (
            {"tables": {1: {"constraints": {"sharding_types": ["column_wise"]}}}},
            "/tables/1/constraints/sharding_types",
            "data_parallel, and column_wise where it has a column_width",
        ),
        (
            {"tables": {1: {"constraints": {"pin": {"sharding_type": "grid_shard", "ranks": [0, 1]}}}}},
            "/tables/1/constraints/pin/sharding_type",
            "leaves no way to shard the table: its module sparse.ec is not pooled",
        ),
        ({"modules": {0: {"splits_rows": True}}}, "/modules/0/splits_rows", "goes with pooling mean only, here is pooling sum"),
        (
            {"modules": {0: {"pooling": "mean"}}, "tables": {0: {"constraints": {"sharding_types": ["row_wise"]}}}},
            "/tables/0/constraints/sharding_types",
            "splits_rows false makes tables table_wise, column_wise, table_column_wise, data_parallel",
        ),
        (
            {
                "modules": {0: {"pooling": "mean", "splits_rows": True}},
                "tables": {0: {"constraints": {"pin": {"sharding_type": "table_wise", "ranks": [0]}}}},
            },
            "/tables/0/constraints/pin/sharding_type",
            "splits_rows true makes tables row_wise, table_row_wise",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, dict[int, Any]], pointer: str, rule: str) -> None:
    data = mixed()
    for key, places in change.items():
        changed = {place: None if new is None else {**data[key][place], **new} for place, new in places.items()}
        data[key] = [each for place, old in enumerate(data[key]) if (each := changed.get(place, old)) is not None]
    with pytest.raises(InvalidDocument) as caught:
        read(data)
    assert [pointer] == [broken.pointer for broken in caught.value.broken_rules]
    assert rule in str(caught.value)


def test_tables_that_name_no_module_are_in_the_only_one() -> None:
    data = model_data() | {"modules": [{"path": "means", "pooling": "mean"}]}
    data["tables"][0]["constraints"] = {"sharding_types": ["grid_shard"]}
    with pytest.raises(InvalidDocument, match="its module means pools means"):
        read(data)


@pytest.mark.parametrize("splits_rows", [False, True])
def test_the_rows_of_all_tables_that_pool_means_are_split_or_those_of_none(splits_rows: bool) -> None:
    """Else TorchRec divides sums by the lengths of their features, too, and means twice."""
    tables = [
        {"name": name, "num_embeddings": 4_000_000, "embedding_dim": 64, "features": [{"name": name, "length": {"fixed": 9}}]}
        for name in "ab"
    ]
    spec = read(
        model_data()
        | {"interaction": "cat", "tables": tables, "modules": [{"path": "means", "pooling": "mean", "splits_rows": splits_rows}]}
    )
    found = plan(spec, gpu_host(), work_limit=1.0)
    assert found.tables
    assert all((each.sharding_type in {ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE}) is splits_rows for each in found.tables)
    assert audit(found) == []
    other = spec.model_copy(update={"modules": (spec.modules[0].model_copy(update={"splits_rows": not splits_rows}),)})  # type: ignore[index]
    wrong = found.model_copy(update={"question": found.question.model_copy(update={"model": other})})
    assert any("its module means pools means" in str(each) for each in audit(wrong))


def test_a_mean_that_fits_only_with_its_rows_split_is_told_so() -> None:
    large = {"name": "large", "num_embeddings": 10**9, "embedding_dim": 64, "features": [{"name": "f", "length": {"fixed": 2}}]}
    asked = {"interaction": "cat", "tables": [large], "modules": [{"path": "means", "pooling": "mean"}]}
    found = plan(read(model_data() | asked), gpu_host(), work_limit=1.0)
    assert found.explanation is not None
    assert any("with splits_rows in its module means all tables there are split by rows" in each for each in found.explanation.reasons)


def test_tables_that_are_kept_together_have_whole_rows() -> None:
    data = model_data() | {"modules": [{"path": "means", "pooling": "mean", "splits_rows": True}]}
    data["together"] = [[table["name"] for table in data["tables"][:2]]]
    with pytest.raises(InvalidDocument, match="must be table_wise to be kept together; its module means pools means"):
        read(data)


def test_a_table_that_names_a_module_needs_modules() -> None:
    data = mixed()
    del data["modules"]
    with pytest.raises(InvalidDocument, match="needs `modules` in the model, it names none"):
        read(data)


def test_a_sequence_puts_out_a_vector_for_each_id() -> None:
    load = history()
    found = work(load, ShardingType.TABLE_WISE)
    assert (found.lookups, found.bags, found.uneven_bags) == (pytest.approx(20 * BATCH * RANKS), BATCH * RANKS, 0)
    assert found.vectors == found.lookups
    assert found.output_bytes == tuple(found.lookups * COLUMNS * 4 * share / 8 for share in (3, 4, 0))
    assert found.peak.vectors == found.peak.ids == load.global_peak_ids > found.vectors


def test_a_block_of_rows_sends_its_share_of_the_vectors_as_they_are() -> None:
    """Half of one sum over all bags would be sent to be added up; of a sequence each vector is one rank's."""
    load, cost = history(), bandwidth_prices(gpu_host())
    found = work(load, ShardingType.ROW_WISE, 1 / 8)
    assert found.vectors == found.lookups == load.global_lookups / 8
    assert found.permuted_vectors == found.vectors
    assert found.output_bytes == tuple(load.global_lookups / 8 * COLUMNS * 4 * share / 8 for share in (3, 4, 0))
    sharding = TableSharding(ShardingType.ROW_WISE, ComputeKernel.FUSED, DataType.FP32, Optimizer.SGD)
    slower = cost.model_copy(update={"reduce_scatter": cost.reduce_scatter.model_copy(update={"per_intra_node_byte_us": 7.0})})
    shape = ShardShape(500, COLUMNS)
    assert shard_stages_us(slower, "gpu", sharding, shape, found) == shard_stages_us(cost, "gpu", sharding, shape, found)


@pytest.mark.parametrize("kind", [ShardingType.TABLE_WISE, ShardingType.DATA_PARALLEL])
def test_one_id_an_example_costs_the_same_pooled_or_not(kind: ShardingType) -> None:
    kernel = ComputeKernel.DENSE if kind is ShardingType.DATA_PARALLEL else ComputeKernel.FUSED
    sharding = TableSharding(kind, kernel, DataType.FP32, Optimizer.SGD)
    one, other = (work(history({"fixed": 1}, pooling=pooling), kind) for pooling in ("sum", "none"))
    prices = [shard_stages_us(bandwidth_prices(gpu_host()), "gpu", sharding, ShardShape(4000, COLUMNS), each) for each in (one, other)]
    assert prices[0] == prices[1]


def test_vectors_from_several_ranks_are_put_in_place() -> None:
    """8 bytes an id, and 24 for each of the rank's own batch; a vector of 16 floats and its copy; two values a bag."""
    sharding = TableSharding(ShardingType.ROW_WISE, ComputeKernel.FUSED, DataType.FP32, Optimizer.SGD)
    load = history()
    found = work(load, ShardingType.ROW_WISE, 1 / 8)
    held, _ = shard_bytes(sharding, ShardShape(500, COLUMNS), found.peak, on_cuda=True)
    of_ids = found.peak.ids * (8 + 2 * COLUMNS * 4) + load.local_peak_ids * 24
    assert held == 500 * COLUMNS * 4 + of_ids + BATCH * RANKS * 16


def test_weights_of_ids_are_sent_and_held() -> None:
    plain, weighted = (work(history(weighted=flag), ShardingType.TABLE_WISE) for flag in (False, True))
    assert sum(weighted.input_bytes) - sum(plain.input_bytes) == pytest.approx(plain.lookups * 4 * 7 / 8)
    sharding = TableSharding(ShardingType.TABLE_WISE, ComputeKernel.FUSED, DataType.FP32, Optimizer.SGD)
    held = [shard_bytes(sharding, ShardShape(4000, COLUMNS), each.peak, on_cuda=True)[0] for each in (plain, weighted)]
    assert held[1] - held[0] == plain.peak.ids * 4


def test_ids_that_come_again_are_sent_once() -> None:
    """1280 lookups of 4000 rows, uniform: a trainer's batch has 4000 (1 - (1 - 1 / 4000)^1280) different ones."""
    plain, once = history(), history(index_dedup=True)
    different = 4000 * (1 - (1 - 1 / 4000) ** 1280)
    assert once.local_lookups == pytest.approx(different, rel=1e-3)
    assert once.global_lookups == 8 * once.local_lookups
    assert once.global_unique_rows == plain.global_unique_rows
    assert once.local_peak_ids < plain.local_peak_ids == once.local_batch_ids
    assert sum(work(once, ShardingType.ROW_WISE, 1 / 8).output_bytes) < sum(work(plain, ShardingType.ROW_WISE, 1 / 8).output_bytes)


def test_output_in_fp16_halves_what_is_sent() -> None:
    one, half = (work(history(output_data_type=kind), ShardingType.TABLE_WISE) for kind in ("fp32", "fp16"))
    assert np.array(one.output_bytes) == pytest.approx(2 * np.array(half.output_bytes))


def test_a_trainer_on_cuda_holds_its_own_sequences_as_they_arrive() -> None:
    """Repeated ids too, where they are sent once. On a CPU they take the place of what is sent."""

    def held(on_cuda: bool, **module: Any) -> int:
        spec = read(mixed({"poisson": 200}, **module))
        return rank_bytes(spec, model_loads(spec, topology(), Objective.MEAN), is_server=False, on_cuda=on_cuda)

    once = history({"poisson": 200}, index_dedup=True)
    assert held(True) > held(False) + BATCH * 100 * COLUMNS * 4
    assert held(True, index_dedup=True) - held(True) == once.local_peak_ids * COLUMNS * 4


def test_plans_keep_to_what_an_embedding_collection_can_do() -> None:
    """The audit derives it anew, and refuses the types that TorchRec does not have for sequences."""
    data = mixed({"lognormal": {"mean": 60, "sigma": 1.0}})
    data["tables"][1]["constraints"] = {"sharding_types": ["column_wise", "table_wise"]}
    made = plan(read(data), gpu_host())
    assert made.tables[1].sharding_type is ShardingType.TABLE_WISE
    assert audit(made) == []
    sequence = made.tables[1].model_copy(update={"sharding_type": ShardingType.COLUMN_WISE})
    findings = audit(made.model_copy(update={"tables": (made.tables[0], sequence)}))
    assert any("its module sparse.ec is not pooled" in finding.what for finding in findings)


@pytest.mark.parametrize(("width", "pieces"), [(8, 2), (4, 4)])
def test_pieces_of_columns_are_as_wide_as_the_module_says(width: int, pieces: int) -> None:
    """Each piece is sent every id, and sends its columns of every vector."""
    data = mixed({"poisson": 60}, column_width=width)
    data["tables"][1]["constraints"] = {"sharding_types": ["column_wise"]}
    made = plan(read(data), gpu_host())
    history = made.tables[1]
    assert [shard.columns for shard in sorted(history.shards, key=lambda shard: shard.columns)] == [
        (start, start + width) for start in range(0, COLUMNS, width)
    ]
    assert len({shard.rank for shard in history.shards}) == pieces
    assert audit(made) == []
    first, *rest = sorted(history.shards, key=lambda shard: shard.columns)
    wider = first.model_copy(update={"columns": (0, 2 * width)}), *(shard for shard in rest if shard.columns[0] >= 2 * width)
    findings = audit(made.model_copy(update={"tables": (made.tables[0], history.model_copy(update={"shards": wider}))}))
    assert any(f"all of its module sparse.ec must be {width} wide" in finding.what for finding in findings)


def test_a_number_of_pieces_that_pooled_tables_are_not_cut_into() -> None:
    """Five: pooled tables are offered 1, 2, 3, 4, 6, 8, ... pieces."""
    data = mixed({"poisson": 60}, column_width=8)
    for table in data["tables"]:
        table["embedding_dim"] = 40
    data["tables"][1]["constraints"] = {"sharding_types": ["column_wise"]}
    assert len(plan(read(data), gpu_host()).tables[1].shards) == 5


def test_a_pin_is_cut_as_the_module_says() -> None:
    data = mixed(column_width=8)
    data["tables"][1]["constraints"] = {"pin": {"sharding_type": "column_wise", "ranks": [1, 0]}}
    assert [shard.rank for shard in plan(read(data), gpu_host()).tables[1].shards] == [0, 1]
    data["tables"][1]["constraints"] = {"pin": {"sharding_type": "column_wise", "ranks": [0, 1, 2, 3]}}
    explanation = plan(read(data), gpu_host()).explanation
    assert explanation is not None
    assert "has pieces of 4 columns; all of its module sparse.ec must be 8 wide" in explanation.reasons[0]
