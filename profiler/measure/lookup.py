"""FBGEMM table-batched embeddings, forward and backward apart: the operators TorchRec's `fused*` and `dense` kernels call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    DenseTableBatchedEmbeddingBagsCodegen,
    SplitTableBatchedEmbeddingBagsCodegen,
)
from numpy.typing import NDArray

from emplace.placement.access import ZipfAccess, access_distribution
from emplace.placement.memory import row_bytes
from emplace.placement.model import ComputeKernel, DataType
from emplace.placement.workload import OUTPUT_BYTES
from emplace.profiler.design.points import LookupPoint, TableCounts, TableShape
from emplace.profiler.measure.exercise import batches_to_rotate
from emplace.runtime.dlrm import FUSED_OPTIMIZERS

_LEARNING_RATE = 0.01
_PRECISIONS = {
    DataType.FP32: SparseType.FP32,
    DataType.FP16: SparseType.FP16,
    DataType.BF16: SparseType.BF16,
    DataType.INT8: SparseType.INT8,
}
_ON_CUDA = {
    ComputeKernel.FUSED: EmbeddingLocation.DEVICE,
    ComputeKernel.FUSED_UVM: EmbeddingLocation.MANAGED,
    ComputeKernel.FUSED_UVM_CACHING: EmbeddingLocation.MANAGED_CACHING,
}


class LookupExercise:
    """A group of tables and a few batches for it; successive repetitions take successive batches."""

    def __init__(self, point: LookupPoint, rng: np.random.Generator, device: torch.device) -> None:
        self._module = _module(point, device)
        self._device = device
        touched_bytes = point.bags * sum(table.lookups_per_bag * row_bytes(point.data_type, table.columns) for table in point.tables)
        drawn = _draw_batches(point, rng.spawn(batches_to_rotate(touched_bytes)))
        self._batches = [_to_tensors(tables, device) for tables in drawn]
        self.counts = tuple(_counts(point, index, [tables[index] for tables in drawn]) for index in range(len(point.tables)))
        width = sum(table.columns for table in point.tables)
        self._gradient = torch.full((point.bags, width), 1e-3, device=device)
        self._output = torch.empty(0)

    def prepare(self, repetition: int) -> None:
        self._batch = self._batches[repetition % len(self._batches)]
        self._module.zero_grad(set_to_none=True)

    def forward(self) -> None:
        self._output = self._module(*self._batch)

    def backward(self) -> None:
        torch.autograd.backward(self._output, self._gradient)
        self._output = torch.empty(0)


def _module(point: LookupPoint, device: torch.device) -> torch.nn.Module:
    if point.kernel is ComputeKernel.DENSE:
        return _dense_module(point, device)
    on_cuda = device.type == "cuda"
    location = _ON_CUDA[point.kernel] if on_cuda else EmbeddingLocation.HOST
    compute = ComputeDevice.CUDA if on_cuda else ComputeDevice.CPU
    module = SplitTableBatchedEmbeddingBagsCodegen(
        embedding_specs=[(table.rows, table.columns, location, compute) for table in point.tables],
        optimizer=FUSED_OPTIMIZERS[point.optimizer],
        learning_rate=_LEARNING_RATE,
        weights_precision=_PRECISIONS[point.data_type],
        bounds_check_mode=BoundsCheckMode.FATAL,
        device=device,
    )
    touch(module)
    return module  # type: ignore[no-any-return]


def _dense_module(point: LookupPoint, device: torch.device) -> torch.nn.Module:
    module = DenseTableBatchedEmbeddingBagsCodegen(
        [(table.rows, table.columns) for table in point.tables],
        use_cpu=device.type == "cpu",
        weights_precision=_PRECISIONS[point.data_type],
    )
    touch(module)
    return module  # type: ignore[no-any-return]


def touch(module: torch.nn.Module) -> None:
    """Write all weights and state: memory that was never written is one shared page of zeros, and reads far too fast."""
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point() and tensor.numel() > 1:
                tensor.fill_(0.01)


class _Drawn(NamedTuple):
    """What one batch asks of one table."""

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    unique_rows: int


def _draw_batches(point: LookupPoint, rngs: Sequence[np.random.Generator]) -> list[list[_Drawn]]:
    """[batches][tables] a batch from each generator, as many at once as this rank has threads."""
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        return list(threads.map(lambda rng: [_draw(table, point.bags, rng) for table in point.tables], rngs))


def _draw(table: TableShape, bags: int, rng: np.random.Generator) -> _Drawn:
    """Popular rows are spread over the table by multiplication, as hashing would spread them."""
    lengths = np.ones(bags, dtype=np.int64) if table.lookups_per_bag == 1 else rng.poisson(table.lookups_per_bag, bags)
    access = access_distribution(ZipfAccess(zipf=table.zipf) if table.zipf else "uniform", table.rows)
    step = next(step for step in (2_654_435_761, 2_654_435_769, 1_000_000_007, 1) if math.gcd(step, table.rows) == 1)
    ids = access.sample(rng, int(lengths.sum())) * np.int64(step) % table.rows
    return _Drawn(ids, np.asarray(lengths, dtype=np.int64), len(np.unique(ids)))


def _to_tensors(tables: list[_Drawn], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """FBGEMM's (indices, offsets): tables one after the other, offsets with a leading zero."""
    indices = np.concatenate([table.ids for table in tables])
    offsets = np.append(0, np.cumsum(np.concatenate([table.lengths for table in tables])))
    return torch.from_numpy(indices).to(device), torch.from_numpy(offsets).to(device)


def _counts(point: LookupPoint, index: int, batches: list[_Drawn]) -> TableCounts:
    """What the batches ask of table `index`, on average."""
    table = point.tables[index]
    return TableCounts(
        lookups=float(np.mean([len(batch.ids) for batch in batches])),
        unique_rows=float(np.mean([batch.unique_rows for batch in batches])),
        row_bytes=row_bytes(point.data_type, table.columns),
        bags=point.bags,
        uneven_bags=0 if table.lookups_per_bag == 1 else point.bags,
        bag_bytes=table.columns * OUTPUT_BYTES,
        rows=table.rows,
    )
