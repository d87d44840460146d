"""Bytes accounting against cases worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.id_order import RowShare
from emplace.placement.memory import WORKSPACE_BYTES, buffer_bytes, cached_rows, optimizer_state_bytes, rank_bytes, row_bytes, shard_bytes
from emplace.placement.model import ComputeKernel, DataType, ModelSpec, Optimizer, ShardingType
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.topology import build_topology
from emplace.placement.workload import Objective, PeakBatch, model_loads, shard_workload
from tests.placement.example_models import gpu_host, model, model_data

ROWS, COLUMNS = 1000, 16
PEAK = PeakBatch(ids=300, bags=64, vectors=64)
ANY_TYPE = ShardingType.TABLE_WISE
"""Bytes depend on the shard's shape, not on the sharding type that gave it."""
BUFFERS = 300 * 8 + 64 * (8 + 8) + 2 * 64 * 16 * 4
"""8 bytes an id, 8 a length, 8 an offset, and 64 pooled vectors of 16 floats, once more as what is sent: 11616."""


def bytes_of(kernel: ComputeKernel, **changes: Any) -> tuple[int, int]:
    case: dict[str, Any] = {"data_type": DataType.FP32, "optimizer": Optimizer.SGD} | changes
    on_cuda = case.pop("on_cuda", True)
    return shard_bytes(TableSharding(ANY_TYPE, kernel, **case), ShardShape(ROWS, COLUMNS), PEAK, on_cuda=on_cuda)


def test_buffers() -> None:
    assert BUFFERS == 11_616
    assert buffer_bytes(PEAK, COLUMNS, exchanged=True) == 11_616
    assert buffer_bytes(PEAK, COLUMNS, exchanged=False) == 11_616 - 64 * 16 * 4


@pytest.mark.parametrize(("data_type", "row"), [(DataType.FP32, 64), (DataType.FP16, 32), (DataType.BF16, 32), (DataType.INT8, 24)])
def test_rows_of_each_data_type(data_type: DataType, row: int) -> None:
    assert row_bytes(data_type, COLUMNS) == row
    assert bytes_of(ComputeKernel.FUSED, data_type=data_type) == (1000 * row + BUFFERS, 0)


@pytest.mark.parametrize(
    ("optimizer", "state"),
    [(Optimizer.SGD, 0), (Optimizer.ADAGRAD, 64_000), (Optimizer.ROWWISE_ADAGRAD, 4_000), (Optimizer.ADAM, 128_000)],
)
def test_state_of_each_optimizer_in_each_place(optimizer: Optimizer, state: int) -> None:
    weights = 64_000
    rowwise = optimizer is Optimizer.ROWWISE_ADAGRAD
    on_device, in_system = (state, 0) if rowwise else (0, state)
    assert optimizer_state_bytes(optimizer, ROWS, COLUMNS) == state
    assert bytes_of(ComputeKernel.FUSED, optimizer=optimizer) == (weights + state + BUFFERS, 0)
    assert bytes_of(ComputeKernel.FUSED, optimizer=optimizer, on_cuda=False) == (0, weights + state + BUFFERS)
    assert bytes_of(ComputeKernel.FUSED_UVM, optimizer=optimizer) == (on_device + BUFFERS, weights + in_system)
    # 200 cached rows of 64 bytes with 16 bytes of tag and time stamp each, and 4 bytes per row of the table
    cache = 200 * (64 + 16) + 1000 * 4
    cached = bytes_of(ComputeKernel.FUSED_UVM_CACHING, optimizer=optimizer, load_factor=0.2)
    assert cached == (on_device + cache + BUFFERS, weights + in_system)
    replica = 3 * weights + state + buffer_bytes(PEAK, COLUMNS, exchanged=False)
    assert bytes_of(ComputeKernel.DENSE, optimizer=optimizer) == (replica, 0)
    assert bytes_of(ComputeKernel.DENSE, optimizer=optimizer, on_cuda=False) == (0, replica)


def test_a_rank_holds_dense_layers_batch_and_vectors() -> None:
    """Layers 8 -> 4 -> 4 and, of 4 + 12 + 12 pooled columns, 28 -> 5 -> 1: 36 + 20 + 145 + 6 parameters.

    The exchange needs 24 x 3 / 2 = 36 values an example; the layers 24 + 28 + (4 + 4 + 5 + 1) + 5 = 71, less the shards' 2 x 24.
    """
    # weights, buckets and two values of Adam's; the gradient of the largest layer
    parameters = WORKSPACE_BYTES + ((36 + 20 + 145 + 6) * (1 + 1 + 2) + 145) * 4
    ids = (20 + 30) * 8 + (10 + 10) * 8
    spec = two_tables(bottom_mlp=[4, 4], top_mlp=[5, 1])
    assert own_bytes(spec, is_server=True) == parameters
    assert own_bytes(spec, is_server=False) == parameters + ids + 10 * (8 + 36) * 4


@pytest.mark.parametrize(
    ("interaction", "kept"),
    [
        # 4 of the bottom MLP and 24 pooled, side by side
        ("cat", 28),
        # all vectors twice, the products of 3 of them with each other, and what the top MLP takes: 12 and 3 different products
        ("dot", 2 * 36 + 9 + 15),
        # what goes in and what each of 2 cross layers makes of it, whose own outputs are 28 + 3 wide
        ("dcn", 28 * 3 + 2 * (28 + 3)),
    ],
)
def test_wide_dense_layers_need_more_than_the_exchange(interaction: str, kept: int) -> None:
    dcn = {"dcn": {"num_layers": 2, "low_rank_dim": 3}} if interaction == "dcn" else {}
    spec = two_tables(bottom_mlp=[12 if interaction == "dot" else 4], top_mlp=[1000, 1], interaction=interaction, **dcn)
    bottom = spec.bottom_mlp[0]
    own = own_bytes(spec, is_server=False) - own_bytes(spec, is_server=True)
    assert own == (20 + 30) * 8 + (10 + 10) * 8 + 10 * (8 + 24 + kept + bottom + 1000 + 1 + 1000 - 2 * 24) * 4


def two_tables(**changes: Any) -> ModelSpec:
    """10 examples of 8 dense features and two tables of 12 columns, with 2 and 3 ids an example."""
    table = {"name": "t", "num_embeddings": 10, "embedding_dim": 12, "features": [{"name": "f", "length": {"fixed": 2}}]}
    two = [table, table | {"name": "u", "features": [{"name": "g", "length": {"fixed": 3}}]}]
    return model(tables=two, dense_features=8, local_batch_size=10, optimizer="adam", **changes)


def own_bytes(spec: ModelSpec, *, is_server: bool) -> int:
    loads = model_loads(spec, build_topology(gpu_host(), None, None, with_servers=False), Objective.MEAN)
    return rank_bytes(spec, loads, is_server=is_server, on_cuda=True)


@given(
    rows=st.integers(1, 10**9),
    columns=st.integers(1, 512).map(lambda quarter: 4 * quarter),
    kernel=st.sampled_from(ComputeKernel),
    data_type=st.sampled_from(DataType),
    optimizer=st.sampled_from(Optimizer),
    factor=st.floats(0.001, 1),
    on_cuda=st.booleans(),
)
def test_bytes_are_whole_and_arrays_agree_with_scalars(
    rows: int, columns: int, kernel: ComputeKernel, data_type: DataType, optimizer: Optimizer, factor: float, on_cuda: bool
) -> None:
    sharding = TableSharding(ANY_TYPE, kernel, data_type, optimizer, load_factor=factor)
    one = shard_bytes(sharding, ShardShape(rows, columns), PeakBatch(5, 7, 7), on_cuda=on_cuda)
    two = ShardShape(np.array([rows, 1]), np.array([columns, 4]))
    many = shard_bytes(sharding, two, PeakBatch(np.array([5, 0]), np.array([7, 0]), np.array([7, 0])), on_cuda=on_cuda)
    assert [int(side) for side in one] == [int(side[0]) for side in many]
    assert all(np.issubdtype(np.asarray(side).dtype, np.integer) for side in (*one, *many))
    assert sum(one) >= rows * row_bytes(data_type, columns)
    assert cached_rows(rows, factor) <= rows


def test_splitting_a_table_splits_its_bytes_and_adds_only_buffers() -> None:
    spec = model(tables=model_data()["tables"][:1], optimizer="adagrad")
    topology = build_topology(gpu_host(), None, None, with_servers=False)
    load = model_loads(spec, topology, Objective.MEAN)[0]
    whole = shard_workload(load, ShardingType.TABLE_WISE, RowShare.even(1.0), 16, topology, on_server=False)
    assert (whole.lookups, whole.bags, whole.peak.ids) == (64 * 8 * 2, 64 * 8, 64 * 8 * 2)
    part = shard_workload(load, ShardingType.ROW_WISE, RowShare.even(0.125), 16, topology, on_server=False)
    assert (part.lookups, part.bags, part.peak.ids) == (64 * 2, 64 * 8, 128)
    sharding = TableSharding(ShardingType.ROW_WISE, ComputeKernel.FUSED, DataType.FP32, Optimizer.ADAGRAD)
    parts = [shard_bytes(sharding, ShardShape(125, 16), PeakBatch(128, 512, 512), on_cuda=True)[0] for _ in range(8)]
    assert sum(parts) == 1000 * 16 * 8 + 8 * buffer_bytes(PeakBatch(128, 512, 512), 16, exchanged=True)


def test_gradients_of_sequences_are_added_up_row_by_row_on_cpus() -> None:
    sharding = TableSharding(ANY_TYPE, ComputeKernel.FUSED, DataType.FP32, Optimizer.SGD)
    shape, rows = ShardShape(ROWS, COLUMNS), PEAK._replace(gradient_rows=10)
    assert shard_bytes(sharding, shape, rows, on_cuda=True) == bytes_of(ComputeKernel.FUSED)
    # Ten rows of 16 floats, each with 480 bytes of maps.
    assert shard_bytes(sharding, shape, rows, on_cuda=False)[1] - bytes_of(ComputeKernel.FUSED, on_cuda=False)[1] == 10 * (480 + 64)


def test_rows_of_a_sequence_are_those_that_its_most_ids_ask_for() -> None:
    table = {"name": "t", "num_embeddings": 4, "embedding_dim": 8, "features": [{"name": "f", "length": {"fixed": 500}}]}
    topology = build_topology(gpu_host(), None, None, with_servers=False)
    for pooling, rows in (("none", 4), ("sum", 0)):
        [load] = model_loads(model(tables=[table], modules=[{"path": "m", "pooling": pooling}]), topology, Objective.MEAN)
        half = shard_workload(load, ShardingType.ROW_WISE, RowShare.even(0.5), 8, topology, on_server=False)
        assert half.peak.gradient_rows == rows / 2
