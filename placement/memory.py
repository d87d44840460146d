"""Bytes accounting: what a shard, and a rank apart from its shards, takes at peak.

A shard: weights, optimizer state, gradients where the kernel has them, cache, ids and pooled vectors. Sources for what
the kernels allocate are in docs/explanation/cost-model.md. Every result is a whole number of bytes; formulas broadcast over arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emplace.placement.dense_part import DensePart, dense_part, layer_parameters
from emplace.placement.model import ComputeKernel, DataType, Interaction, ModelSpec, Optimizer, Table
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.workload import ID_BYTES, LENGTH_BYTES, PLACE_BYTES, PeakBatch, TableLoad

STATE_BYTES = 4
"""Optimizer state and dense parameters are fp32."""

OFFSET_BYTES = 8
"""One offset for each bag is kept for the backward pass."""
WORKSPACE_BYTES = 2 * 2**20
"""Workspaces of matrix products and objects of the model: 1.1 to 3.6 MiB were measured the first time that a process trains one."""

_ELEMENT_BYTES = {DataType.FP32: 4, DataType.FP16: 2, DataType.BF16: 2, DataType.INT8: 1}
_INT8_ROW_PARAMETERS_BYTES = 8
"""Scale and bias that FBGEMM keeps in each int8 row."""
GRADIENT_ROW_BYTES = 480
"""What FBGEMM's kernel for sequences on CPUs holds for each row that it adds up a gradient of, in a map of maps and a map of where it is:
two nodes of 80, of which each has a table of 112, an inner node of 48 and one of 32, and 16 around the gradient itself (glibc's malloc)."""
_CACHE_SLOT_BYTES = 16
"""Tag and time stamp of each cached row (FBGEMM's lxu_cache_state and lxu_state, int64 each)."""
_CACHE_INDEX_BYTES = 4
"""FBGEMM's cache_index_table_map: one int32 per row of a cached table, on the device."""


def row_bytes(data_type: DataType, columns: Any) -> Any:
    """Bytes of one row of weights as stored."""
    extra = _INT8_ROW_PARAMETERS_BYTES if data_type is DataType.INT8 else 0
    return columns * _ELEMENT_BYTES[data_type] + extra


def weight_bytes(table: Table) -> int:
    """Bytes of all weights of a table, the least that it takes wherever it is."""
    return int(table.num_embeddings * row_bytes(table.data_type, table.embedding_dim))


def optimizer_state_bytes(optimizer: Optimizer, rows: Any, columns: Any) -> Any:
    """Bytes of a fused optimizer's state; row-wise Adagrad keeps one value per row of each shard."""
    if optimizer is Optimizer.ROWWISE_ADAGRAD:
        return rows * STATE_BYTES
    return rows * columns * STATE_BYTES * optimizer.values_per_weight


def buffer_bytes(peak: PeakBatch, columns: Any, *, exchanged: bool) -> Any:
    """Bytes of the ids, lengths and offsets that arrive at a shard, of its vectors, and of the copy that an exchange sends."""
    value_bytes = peak.value_bytes + (peak.copied_bytes if exchanged else 0)
    ids = peak.ids * peak.id_bytes + peak.placed_ids * PLACE_BYTES
    return ids + peak.bags * (LENGTH_BYTES + OFFSET_BYTES) + peak.vectors * columns * value_bytes


def gradient_bytes(peak: PeakBatch, columns: Any) -> Any:
    """Bytes of the gradients of rows of a sequence that a backward on CPUs adds up.

    They are in blocks so small that the C library may keep them, freed, until the next step's: there is room for a shard's vectors besides.
    """
    return peak.gradient_rows * (GRADIENT_ROW_BYTES + columns * STATE_BYTES)


def cached_rows(rows: Any, cache_load_factor: Any) -> Any:
    """Rows that fit a cache of this load factor."""
    return np.ceil(np.asarray(rows) * cache_load_factor).astype(np.int64)


def shard_bytes(sharding: TableSharding, shape: ShardShape, peak: PeakBatch, *, on_cuda: bool) -> tuple[Any, Any]:
    """(hbm_bytes, ddr_bytes) of a shard at peak, with so large a batch in a step. On a CPU device all is system memory."""
    kernel, rows, columns = sharding.kernel, shape.rows, shape.columns
    weights = rows * row_bytes(sharding.data_type, columns)
    state = optimizer_state_bytes(sharding.optimizer, rows, columns)
    buffers = buffer_bytes(peak, columns, exchanged=kernel is not ComputeKernel.DENSE)
    if kernel is ComputeKernel.DENSE:
        # Gradient and all-reduce bucket, each as large as the weights.
        everything = 3 * weights + state + buffers
        return (everything, everything * 0) if on_cuda else (everything * 0, everything)
    if not on_cuda:
        return rows * 0, weights + state + buffers + gradient_bytes(peak, columns)
    if kernel is ComputeKernel.FUSED:
        return weights + state + buffers, rows * 0
    # Row-wise state of a table in system memory still lives on the device (FBGEMM construct_split_state).
    on_device, in_system = (state, weights) if sharding.optimizer is Optimizer.ROWWISE_ADAGRAD else (rows * 0, weights + state)
    if kernel is ComputeKernel.FUSED_UVM_CACHING:
        slots = cached_rows(rows, sharding.load_factor)
        on_device = on_device + slots * (row_bytes(sharding.data_type, columns) + _CACHE_SLOT_BYTES) + rows * _CACHE_INDEX_BYTES
    return on_device + buffers, in_system


def rank_bytes(model: ModelSpec, loads: list[TableLoad], *, is_server: bool, on_cuda: bool) -> int:
    """Bytes that a rank holds whatever its shards: the replicated dense part; on a trainer its batch and activations too."""
    dense = dense_part(model)
    states = model.optimizer.of_dense_layers.values_per_weight
    # Weights, all-reduce buckets that gradients are views of, optimizer state; one gradient at a time on its way to its bucket.
    parameters = WORKSPACE_BYTES + STATE_BYTES * (dense.parameters * (2 + states) + max(map(layer_parameters, dense.layers), default=0))
    if is_server:
        return parameters
    examples = model.local_batch_size
    ids = sum(int(load.local_batch_ids) * int(load.id_bytes) + int(load.local_bags) * LENGTH_BYTES for load in loads)
    exchanged, held = (_sequence_bytes(model, loads), 0) if on_cuda else (0, _arrived_bytes(model, loads))
    return parameters + ids + examples * model.dense_features * STATE_BYTES + _vector_bytes(model, dense, exchanged, held)


def _vector_bytes(model: ModelSpec, dense: DensePart, exchanged: int, held: int) -> int:
    """Bytes of vectors and activations that a trainer holds, beside those that shards hold, at the fullest moment of a step.

    That is either the exchange, where the vectors of all tables arrive and are put in order while shards hold them twice; or
    the dense layers, where shards hold none. Shards hold as many vectors as a batch has on average, so the dense layers count
    with what they need beyond that: of sequences, one copy less (`held`).
    """
    outputs = [width for _, width in dense.layers]
    layers = dense.pooled_width + _interaction_width(model, dense) + sum(outputs) + max(outputs, default=0)
    beyond = model.local_batch_size * (layers - 2 * _pooled_width(model)) * STATE_BYTES - held
    return max(_exchange_bytes(model) + exchanged, beyond)


def _pooled_width(model: ModelSpec) -> int:
    """Values of the pooled vectors of an example."""
    return sum(table.embedding_dim * len(table.features) for table in model.tables if model.module_of(table).is_pooled)


def _exchange_bytes(model: ModelSpec) -> int:
    """Bytes of a trainer's own pooled vectors while they arrive and are put in order."""
    return model.local_batch_size * (_pooled_width(model) * 3 // 2) * STATE_BYTES


def beside_sequences_bytes(model: ModelSpec, loads: list[TableLoad]) -> int:
    """Bytes that a trainer on a CPU holds in the backward beside vectors of its own sequences, beyond what `rank_bytes` has room for.

    The number of each id's example and the gradient of the one vector that the dense layers take of each sequence, for which there is
    room where pooled vectors arrived.
    """
    beside = sum(
        int(load.local_batch_ids) * ID_BYTES + int(load.local_bags) * table.embedding_dim * STATE_BYTES
        for table, load in _sequences(model, loads)
    )
    return max(0, beside - _exchange_bytes(model))


def _arrived_bytes(model: ModelSpec, loads: list[TableLoad]) -> int:
    """Bytes of the vectors of a trainer's own sequences."""
    return sum(arrived_bytes(table, load) for table, load in _sequences(model, loads))


def arrived_bytes(table: Table, load: TableLoad) -> int:
    """Bytes of the vectors of a trainer's own sequences of one table."""
    return int(load.local_batch_ids) * table.embedding_dim * int(load.value_bytes)


def _sequences(model: ModelSpec, loads: list[TableLoad]) -> list[tuple[Table, TableLoad]]:
    """The tables that are not pooled, with their loads."""
    return [(table, load) for table, load in zip(model.tables, loads, strict=False) if not load.is_pooled]


def _sequence_bytes(model: ModelSpec, loads: list[TableLoad]) -> int:
    """Bytes of the vectors of a trainer's own sequences as they arrive; where ids are sent once, also once they are repeated.

    On CUDA devices only, which hold room for what arrives while shards still hold what they send. In system memory it is taken when
    it comes, and shards have let go of one copy then (`own_peaks`).
    """
    held = 0
    for table, load in _sequences(model, loads):
        repeated = int(load.local_batch_ids) if load.local_peak_ids < load.local_batch_ids else 0
        held += (int(load.local_peak_ids) + repeated) * table.embedding_dim * int(load.value_bytes)
    return held


def _interaction_width(model: ModelSpec, dense: DensePart) -> int:
    """Values that the interaction keeps of an example: all vectors side by side, and what it makes of them."""
    vectors = dense.pooled_width + (dense.bottom[-1][1] if dense.bottom else model.dense_features)
    match model.interaction:
        case Interaction.CAT:
            return vectors
        case Interaction.DCN:
            return vectors * (1 + len(dense.cross) // 2)
        case Interaction.DOT:
            products = (model.num_features + 1) ** 2
            return 2 * vectors + products + (dense.top[0][0] if dense.top else 0)
