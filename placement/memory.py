"""Bytes accounting: what a shard, and a rank apart from its shards, takes at peak.

A shard: weights, optimizer state, gradients where the kernel has them, cache, ids and pooled vectors. Sources for what
the kernels allocate are in docs/cost-model.md. Every result is a whole number of bytes; formulas broadcast over arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from placement.dense_part import dense_part
from placement.model import ComputeKernel, DataType, ModelSpec, Optimizer
from placement.workload import ID_BYTES, LENGTH_BYTES, OUTPUT_BYTES, TableLoad

STATE_BYTES = 4
"""Optimizer state and dense parameters are fp32."""

_ELEMENT_BYTES = {DataType.FP32: 4, DataType.FP16: 2, DataType.BF16: 2, DataType.INT8: 1}
_INT8_ROW_PARAMETERS_BYTES = 8
"""Scale and bias that FBGEMM keeps in each int8 row."""
_CACHE_SLOT_BYTES = 16
"""Tag and time stamp of each cached row (FBGEMM's lxu_cache_state and lxu_state, int64 each)."""
_CACHE_INDEX_BYTES = 4
"""FBGEMM's cache_index_table_map: one int32 per row of a cached table, on the device."""


def row_bytes(data_type: DataType, columns: Any) -> Any:
    """Bytes of one row of weights as stored."""
    extra = _INT8_ROW_PARAMETERS_BYTES if data_type is DataType.INT8 else 0
    return columns * _ELEMENT_BYTES[data_type] + extra


def optimizer_state_bytes(optimizer: Optimizer, rows: Any, columns: Any) -> Any:
    """State of a fused optimizer; row-wise Adagrad keeps one value per row of each shard."""
    match optimizer:
        case Optimizer.SGD:
            return rows * 0
        case Optimizer.ADAGRAD:
            return rows * columns * STATE_BYTES
        case Optimizer.ROWWISE_ADAGRAD:
            return rows * STATE_BYTES
        case Optimizer.ADAM:
            return rows * columns * STATE_BYTES * 2


def buffer_bytes(peak_ids: Any, bags: Any, columns: Any) -> Any:
    """Ids and lengths that arrive at a shard, its pooled vectors and their gradients."""
    return peak_ids * ID_BYTES + bags * LENGTH_BYTES + 2 * bags * columns * OUTPUT_BYTES


def cached_rows(rows: Any, cache_load_factor: Any) -> Any:
    """Rows that fit a cache of this load factor."""
    return np.ceil(np.asarray(rows) * cache_load_factor).astype(np.int64)


def shard_bytes(
    kernel: ComputeKernel,
    data_type: DataType,
    optimizer: Optimizer,
    rows: Any,
    columns: Any,
    peak_ids: Any,
    bags: Any,
    *,
    cache_load_factor: Any = 0.0,
    on_cuda: bool,
) -> tuple[Any, Any]:
    """(hbm_bytes, ddr_bytes) of one shard. On a CPU device everything is system memory."""
    weights = rows * row_bytes(data_type, columns)
    state = optimizer_state_bytes(optimizer, rows, columns)
    buffers = buffer_bytes(peak_ids, bags, columns)
    if kernel is ComputeKernel.DENSE:
        # Gradient and all-reduce bucket, each as large as the weights.
        everything = 3 * weights + state + buffers
        return (everything, everything * 0) if on_cuda else (everything * 0, everything)
    if not on_cuda:
        return rows * 0, weights + state + buffers
    if kernel is ComputeKernel.FUSED:
        return weights + state + buffers, rows * 0
    # Row-wise state of a table in system memory still lives on the device (FBGEMM construct_split_state).
    on_device, in_system = (state, weights) if optimizer is Optimizer.ROWWISE_ADAGRAD else (rows * 0, weights + state)
    if kernel is ComputeKernel.FUSED_UVM_CACHING:
        slots = cached_rows(rows, cache_load_factor)
        on_device = on_device + slots * (row_bytes(data_type, columns) + _CACHE_SLOT_BYTES) + rows * _CACHE_INDEX_BYTES
    return on_device + buffers, in_system


def rank_bytes(model: ModelSpec, loads: list[TableLoad], *, is_server: bool) -> int:
    """What a rank holds whatever its shards: the replicated dense part; on a trainer its batch and activations too."""
    dense = dense_part(model)
    states = {Optimizer.SGD: 0, Optimizer.ADAGRAD: 1, Optimizer.ROWWISE_ADAGRAD: 1, Optimizer.ADAM: 2}[model.optimizer]
    # weights, gradients, all-reduce buckets, optimizer state
    parameters = dense.parameters * STATE_BYTES * (3 + states)
    if is_server:
        return parameters
    examples = model.local_batch_size
    activations = 2 * examples * dense.activation_width * STATE_BYTES + examples * model.dense_features * STATE_BYTES
    ids = sum(int(load.local_peak_ids) * ID_BYTES + int(load.local_bags) * LENGTH_BYTES for load in loads)
    return parameters + activations + ids
