"""What arrives at a shard in one step: lookups, unique rows, pooled vectors, and the bytes that cross links.

A table's load is a property of the model and the batch; a shard's workload follows from the sharding type, the share of
the rows and the columns it holds, and where the ranks sit. Every formula broadcasts over numpy arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from emplace.placement.id_order import RowShare, hashed_curves, row_curves
from emplace.placement.lengths import LengthDistribution
from emplace.placement.model import DataType, ModelSpec, ShardingType, Table
from emplace.placement.modules import ONE_MODULE, Module
from emplace.placement.qcomm import REDUCED_BYTES
from emplace.placement.sums import add_up
from emplace.placement.topology import Topology

ID_BYTES = 8
LENGTH_BYTES = 8
WEIGHT_BYTES = 4
"""A weight of an id, in modules with weights."""
OUTPUT_BYTES = 4
"""Values of dense layers, and of vectors that are put out in fp32, whatever the table's data type."""
PLACE_BYTES = 24
"""What an id of a trainer's own sequences takes besides where rows are split: three arrays of 8 bytes, so that its vector finds its place."""
_VALUE_BYTES = {DataType.FP32: OUTPUT_BYTES, DataType.FP16: 2, DataType.BF16: 2}

MEMORY_QUANTILE = 0.999
"""Memory is held for as many ids as a batch has at this quantile."""


class Objective(StrEnum):
    """What a plan minimises: a step time, or first the number of devices and then the mean step time.

    p95 counts every table's lookups at their own 95th percentile at once.
    """

    MEAN = "mean"
    P95 = "p95"
    DEVICES = "devices"


@dataclass(frozen=True)
class TableLoad:
    """What one step asks of one table, or of many where fields are arrays.

    `global` counts the batches of all trainers together, `local` that of one. Peak ids are those that memory is held for. A bag is one
    feature of one example. Lookups put out a vector for each bag where they are pooled, else one each.
    """

    global_lookups: Any
    local_lookups: Any
    global_unique_rows: Any
    local_unique_rows: Any
    global_peak_ids: Any
    local_peak_ids: Any
    global_bags: Any
    local_bags: Any
    global_uneven_bags: Any
    """Bags of features whose length varies from example to example."""
    local_uneven_bags: Any
    local_batch_ids: Any
    """Ids of a trainer's own batch that memory is held for, those that come again included."""
    global_peak_rows: Any = 0
    """Different rows among as many ids of all batches as memory is held for, of a table that is not pooled."""
    is_pooled: Any = True
    id_bytes: Any = ID_BYTES
    """How large an id is, with its weight where it has one."""
    value_bytes: Any = OUTPUT_BYTES
    """How large a value of the vectors that are put out is."""
    forward_bytes: Any = OUTPUT_BYTES
    """How large one is on its way to the trainers."""
    backward_bytes: Any = OUTPUT_BYTES
    """How large one of its gradient is on its way back."""
    curves: Any = None
    """How lookups add up over the rows (RowCurves); None where hot rows are spread evenly."""

    def row_share(self, first_row: Any, rows: Any, num_embeddings: int) -> RowShare:
        """What a block of rows takes of one table's load."""
        if self.curves is None:
            return RowShare.even(rows / num_embeddings)
        block: RowShare = self.curves.block(first_row / num_embeddings, (first_row + rows) / num_embeddings)
        return block


def _either(which: Any, one: Any, other: Any) -> Any:
    """`one` where `which` holds, else `other`; exact numbers stay exact where all is a single case."""
    if isinstance(which, bool):
        return one if which else other
    return np.where(which, one, other)


def table_load(table: Table, local_batch_size: int, trainers: int, objective: Objective, module: Module = ONE_MODULE) -> TableLoad:
    """The load of `table`, which is in `module`, under `trainers` ranks with `local_batch_size` examples each."""
    sizes = (local_batch_size * trainers, local_batch_size)
    lookups = [add_up(_lookups(feature.lengths, size, objective) for feature in table.features) for size in sizes]
    unique = table.accesses.unique_rows(lookups)
    sent_once = lookups[1] if module.index_dedup else None
    curves = row_curves(table.ids, table.accesses, lookups[0], sent_once)
    if curves is None and not module.is_pooled:
        curves = hashed_curves(table.name, table.num_embeddings, table.accesses, lookups[0], sent_once)
    batch_ids = [peak_ids(table, size) for size in sizes]
    peak = batch_ids
    if module.index_dedup:
        different = int(np.ceil(table.accesses.unique_rows([batch_ids[1]])[0]))
        lookups, peak = [trainers * float(unique[1]), float(unique[1])], [min(batch_ids[0], trainers * different), different]
    bags = [len(table.features) * size for size in sizes]
    uneven = [sum(feature.lengths.variance > 0 for feature in table.features) * size if module.is_pooled else 0 for size in sizes]
    return TableLoad(
        global_lookups=lookups[0],
        local_lookups=lookups[1],
        global_unique_rows=float(unique[0]),
        local_unique_rows=float(unique[1]),
        global_peak_ids=peak[0],
        local_peak_ids=peak[1],
        global_bags=bags[0],
        local_bags=bags[1],
        global_uneven_bags=uneven[0],
        local_uneven_bags=uneven[1],
        local_batch_ids=batch_ids[1],
        global_peak_rows=0 if module.is_pooled else math.ceil(table.accesses.unique_rows(batch_ids[0])),
        is_pooled=module.is_pooled,
        id_bytes=ID_BYTES + (WEIGHT_BYTES if module.weighted else 0),
        value_bytes=(value_bytes := _VALUE_BYTES[module.output_data_type]),
        forward_bytes=min(value_bytes, module.sent_in.forward_precision.value_bytes),
        backward_bytes=min(value_bytes, module.sent_in.backward_precision.value_bytes),
        curves=curves,
    )


def peak_ids(table: Table, examples: int) -> int:
    """Ids that memory is held for, of a batch of so many examples: each feature's at MEMORY_QUANTILE."""
    return sum(int(np.ceil(feature.lengths.total_quantile(MEMORY_QUANTILE, examples))) for feature in table.features)


def _lookups(lengths: LengthDistribution, examples: int, objective: Objective) -> float:
    return lengths.total_quantile(0.95, examples) if objective is Objective.P95 else lengths.mean * examples


class PeakBatch(NamedTuple):
    """What memory is held for at a shard: ids, bags, and the vectors that lookups put out."""

    ids: Any
    bags: Any
    vectors: Any
    id_bytes: Any = ID_BYTES
    value_bytes: Any = OUTPUT_BYTES
    copied_bytes: Any = OUTPUT_BYTES
    """How large a value is in the copies that an exchange makes to send it, all together."""
    gradient_rows: Any = 0
    """Rows that a backward on CPUs adds up the gradients of, each in a place of its own: those of sequences."""
    placed_ids: Any = 0
    """Ids of sequences whose vectors come from several ranks, and find their places."""


LinkBytes = tuple[Any, Any, Any]
"""What a shard's rank exchanges (inside the node, across nodes, over a remote server's own link)."""


@dataclass(frozen=True)
class ShardWorkload:
    """What one step asks of one shard, or of many where fields are arrays.

    What a server exchanges crosses the trainers' links too, an equal part each: `of_each_trainer`.
    """

    lookups: Any
    unique_rows: Any
    peak: PeakBatch
    bags: Any
    vectors: Any
    """Vectors that lookups put out: pooled ones, one for each bag; else one for each lookup."""
    uneven_bags: Any
    """Bags whose lengths differ, so that each one's end is found anew. In a block of rows all do: it has some of a bag's ids by chance."""
    input_bytes: LinkBytes
    """Ids and lengths."""
    output_bytes: LinkBytes
    """Vectors."""
    gradient_bytes: LinkBytes
    """The gradients of vectors."""
    converted_bytes: tuple[Any, Any]
    """(vectors, gradients): what is read and written at both ends, where they are sent in another type than they are put out in."""
    permuted_vectors: Any
    """Vectors, and pieces of them, that are put in order where they arrive. They are counted at the shard that they come from."""
    value_bytes: Any
    is_pooled: Any
    """Where rows are split, partial sums are added up on the way; of sequences each vector comes from the one rank that has its row."""
    copies: tuple[int, int] = (0, 0)
    """(nodes, trainers of each) that hold the shard, where it is replicated."""
    messages: int = 0
    """Messages that a server's shard gets or sends in each exchange: one from or to each trainer."""

    def of_each_trainer(self, topology: Topology) -> tuple[Any, Any, Any]:
        """(input, output, gradient) bytes that a server's shard exchanges with each trainer."""
        trainers = len(topology.trainers)
        return self.input_bytes[2] / trainers, self.output_bytes[2] / trainers, self.gradient_bytes[2] / trainers


_NO_BYTES = (0.0, 0.0, 0.0)
ROW_SPLIT = {ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD}
"""Sharding types that split rows."""
PERMUTED = {ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD}
"""Sharding types whose pooled vectors arrive as pieces of columns."""


def shard_workload(
    load: TableLoad, sharding_type: ShardingType, share: RowShare, columns: Any, topology: Topology, *, on_server: bool
) -> ShardWorkload:
    """The workload of a shard whose rows take this share of the table's load, and of so many columns. docs/explanation/cost-model.md derives the bytes."""
    if sharding_type is ShardingType.DATA_PARALLEL:
        return _replicated(load, topology)
    pooled, value_bytes = load.is_pooled, load.value_bytes
    lookups, bags = load.global_lookups * share.lookups, load.global_bags
    ids = np.ceil(load.global_peak_ids * share.lookups).astype(np.int64)
    peak_rows = np.ceil(load.global_peak_rows * share.unique_rows).astype(np.int64)
    vectors = _either(pooled, bags, lookups)
    exchanged = _exchange_shares(topology, on_server=on_server)
    shares = _vector_shares(sharding_type, pooled, topology, exchanged)
    sent = _sent_bytes(load, sharding_type)
    output_bytes, gradient_bytes = (_on_links(vectors * columns * each, shares) for each in sent)
    return ShardWorkload(
        lookups=lookups,
        unique_rows=load.global_unique_rows * share.unique_rows,
        peak=PeakBatch(
            ids,
            bags,
            vectors=_either(pooled, bags, ids),
            id_bytes=load.id_bytes,
            value_bytes=value_bytes,
            copied_bytes=_copied_bytes(load, sent),
            gradient_rows=peak_rows,
            # Every trainer has a block. Where servers have them, each counts what trainers hold for its ids.
            placed_ids=_either(pooled, 0, ids if on_server else load.local_peak_ids) if sharding_type in ROW_SPLIT else 0,
        ),
        bags=bags,
        vectors=vectors,
        uneven_bags=_either(pooled, bags, 0 * bags) if sharding_type in ROW_SPLIT else load.global_uneven_bags,
        input_bytes=_on_links(lookups * load.id_bytes + bags * LENGTH_BYTES, exchanged),
        output_bytes=output_bytes,
        gradient_bytes=gradient_bytes,
        converted_bytes=(
            vectors * columns * _converted_bytes(value_bytes, sent[0]),
            vectors * columns * _converted_bytes(value_bytes, sent[1]),
        ),
        permuted_vectors=vectors * _permuted_share(sharding_type, topology.trainers_per_node, pooled),
        value_bytes=value_bytes,
        is_pooled=pooled,
        messages=len(topology.trainers) if on_server else 0,
    )


def _replicated(load: TableLoad, topology: Topology) -> ShardWorkload:
    """The workload of a table that every trainer holds: that of its own batch."""
    pooled, bags = load.is_pooled, load.local_bags
    return ShardWorkload(
        lookups=load.local_lookups,
        unique_rows=load.local_unique_rows,
        peak=PeakBatch(load.local_peak_ids, bags, _either(pooled, bags, load.local_peak_ids), load.id_bytes, load.value_bytes),
        bags=bags,
        vectors=_either(pooled, bags, load.local_lookups),
        uneven_bags=load.local_uneven_bags,
        input_bytes=_NO_BYTES,
        output_bytes=_NO_BYTES,
        gradient_bytes=_NO_BYTES,
        converted_bytes=(0.0, 0.0),
        permuted_vectors=0.0,
        value_bytes=load.value_bytes,
        is_pooled=pooled,
        copies=(topology.trainer_nodes, topology.trainers_per_node),
    )


def _exchange_shares(topology: Topology, *, on_server: bool) -> LinkBytes:
    """What a shard exchanges with all trainers, each an equal part, in times of it."""
    world, local = len(topology.trainers), topology.trainers_per_node
    return (0.0, 0.0, 1.0) if on_server else ((local - 1) / world, (world - local) / world, 0.0)


def _vector_shares(sharding_type: ShardingType, pooled: Any, topology: Topology, exchanged: LinkBytes) -> LinkBytes:
    """What a shard sends of its vectors, in times of them, where `exchanged` is what it sends of what is not added up on the way."""
    nodes, local = topology.trainer_nodes, topology.trainers_per_node
    if sharding_type in (ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD):
        # Partial sums are reduced inside the node, then each rank sends its part of the batch to the other nodes.
        return (local - 1) / local, (nodes - 1) / nodes / local, 0.0
    if sharding_type is not ShardingType.ROW_WISE or exchanged[2]:
        return exchanged
    near, far = ring_share(nodes, local)
    return _either(pooled, near, exchanged[0]), _either(pooled, far, exchanged[1]), 0.0


def _sent_bytes(load: TableLoad, sharding_type: ShardingType) -> tuple[Any, Any]:
    """(forward, backward): how large a value is on its way."""
    sent = load.forward_bytes, load.backward_bytes
    if sharding_type not in ROW_SPLIT:
        return sent
    forward, backward = (_either(load.is_pooled & (each < REDUCED_BYTES), REDUCED_BYTES, each) for each in sent)
    return forward, backward


def _copied_bytes(load: TableLoad, sent: tuple[Any, Any]) -> Any:
    """A value is copied once to be sent. To be converted it is clamped first, and of a sequence put in order before that (TorchRec's
    comm_ops.py, fp32_to_fp16_with_clamp of FBGEMM's quantize_utils.py)."""
    between = _either(load.is_pooled, load.value_bytes, 2 * load.value_bytes)
    forward, backward = (each + _either(each == load.value_bytes, 0, between) for each in sent)
    return _either(forward > backward, forward, backward)


def _on_links(sent_bytes: Any, shares: LinkBytes) -> LinkBytes:
    return sent_bytes * shares[0], sent_bytes * shares[1], sent_bytes * shares[2]


def _converted_bytes(value_bytes: Any, sent_bytes: Any) -> Any:
    """Bytes of a value that are read and written to convert it there, and back."""
    return _either(value_bytes == sent_bytes, 0, 2 * (value_bytes + sent_bytes))


def _permuted_share(sharding_type: ShardingType, trainers_per_node: int, is_pooled: Any) -> Any:
    """How many pieces are put in order for each vector of a shard.

    Where rows are split, the vectors of a sequence come from several ranks and are put in the order of its ids. In a grid each of the
    node's ranks holds a block of the rows of a piece: a bag is counted at all of them, and put in order once.
    """
    if sharding_type is ShardingType.ROW_WISE:
        return _either(is_pooled, 0.0, 1.0)
    if sharding_type not in PERMUTED:
        return 0.0
    return 1.0 / trainers_per_node if sharding_type is ShardingType.GRID_SHARD else 1.0


def ring_share(nodes: int, local: int) -> tuple[float, float]:
    """(inside the node, across nodes): what a rank sends in a ring that reduces and scatters what all ranks hold, in times of that, where
    each node has so many.

    All of it but a part goes over every hop of NCCL's rings. One hop of `local` leaves the node, and each of the node's ranks sends
    that one in a ring of its own.
    """
    ranks = nodes * local
    passed = (ranks - 1) / ranks
    return (passed, 0.0) if nodes == 1 else (passed * (local - 1) / local, passed / local)


def all_reduce_share(nodes: int, local: int) -> tuple[float, float]:
    """(inside the node, across nodes): what a rank sends to all-reduce a parameter in a hierarchical ring, in times of its bytes, where each
    node has so many."""
    return 2 * (local - 1) / local, 2 * (nodes - 1) / nodes / local


def model_loads(model: ModelSpec, topology: Topology, objective: Objective) -> list[TableLoad]:
    """One load per table, in the model's order."""
    trainers = len(topology.trainers)
    return [table_load(table, model.local_batch_size, trainers, objective, model.module_of(table)) for table in model.tables]
