"""What single ranks on CPUs peak at, where a model has sequences: each at a moment of its own.

While vectors of sequences are sent, a rank holds those of its shards twice, ids of whole rows once more than later, and one copy of pooled
vectors that are on their way. In the backward a trainer holds the vectors of its own sequences and their gradients, and shards hold none,
but for gradients that came already, of vectors and row by row: collections and sharding types send one after the other, the first one
last. When the last ones came, those of its own are gone, and shards add up gradients of rows. While pooled vectors are sent, or gradients
of replicated tables summed up, there are no sequences. A rank peaks at the fullest of these moments. A node's sum counts what shards hold,
whichever the moment: it is what must fit, and all vectors of sequences come from some shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emplace.placement.host import DeviceType
from emplace.placement.memory import gradient_bytes, own_sequence_bytes, row_bytes
from emplace.placement.model import ComputeKernel, ShardingType, Table
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.topology import Topology
from emplace.placement.workload import TableLoad, shard_workload


class _Passing(NamedTuple):
    """Bytes that a shard holds for a part of the step only."""

    vectors: int
    """With the copy that is sent."""
    on_their_way: int
    """The copy that is sent; gradients that come are as many."""
    ids: int = 0
    """Those that vectors were looked up for, as they came from all ranks, beside those that are kept; of a whole row, not of a block of rows."""
    of_rows: int = 0
    """Gradients of rows that are added up."""


def beyond_shards_bytes(
    question: Question, placements: Sequence[TablePlacement], loads: Sequence[TableLoad], topology: Topology
) -> NDArray[np.int64]:
    """[R] how much more system memory each rank peaks at than its part of its node's sum; less than nothing where what its shards hold is
    never there at once. `loads` are in the model's order."""
    known = {table.name: (table, load) for table, load in zip(question.model.tables, loads, strict=True)}
    pooled, pooled_copies, sent, ids, of_rows, came, came_last = np.zeros((7, len(topology.ranks)), dtype=np.int64)
    if all(load.is_pooled for load in loads):
        return pooled
    last = _last_in_backward(question, placements)
    for placement in placements:
        table, load = known[placement.name]
        for shard in placement.shards:
            rank, passing = shard.rank, _passing(placement, shard, table, load, topology)
            if load.is_pooled:
                pooled[rank] += passing.vectors
                pooled_copies[rank] += passing.on_their_way
                continue
            sent[rank] += passing.vectors
            ids[rank] += passing.ids
            of_rows[rank] += passing.of_rows
            if (table.module, placement.sharding_type) == last:
                came_last[rank] += passing.on_their_way
            else:
                came[rank] += passing.on_their_way + passing.of_rows
    own = own_sequence_bytes(question.model, list(loads))
    fullest = np.maximum.reduce([pooled, sent + ids + pooled_copies, own + came, came_last + of_rows])
    is_trainer = np.array([not rank.is_server and rank.type is not DeviceType.CUDA for rank in topology.ranks])
    return np.where(is_trainer, fullest - pooled - sent - of_rows, 0)


def _last_in_backward(question: Question, placements: Sequence[TablePlacement]) -> tuple[str | None, ShardingType] | None:
    """The module and sharding type of the first sequence of the model that is placed."""
    kinds, model = {placement.name: placement.sharding_type for placement in placements}, question.model
    sequences = (table for table in model.tables if table.name in kinds and not model.module_of(table).is_pooled)
    return next(((table.module, kinds[table.name]) for table in sequences), None)


def _passing(placement: TablePlacement, shard: Shard, table: Table, load: TableLoad, topology: Topology) -> _Passing:
    """Vectors and their copies, and gradients; of a replicated table those before they are summed up."""
    rows, columns = shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0]
    share = load.row_share(shard.rows[0], rows, table.num_embeddings)
    on_server = topology.ranks[shard.rank].is_server
    peak = shard_workload(load, placement.sharding_type, share, columns, topology, on_server=on_server).peak
    vectors = int(peak.vectors) * columns
    if placement.compute_kernel is ComputeKernel.DENSE:
        return _Passing(vectors * int(peak.value_bytes) + rows * int(row_bytes(table.data_type, columns)), 0)
    copies = vectors * int(peak.copied_bytes)
    ids = 0 if peak.placed_ids else int(peak.ids) * int(peak.id_bytes)
    return _Passing(vectors * int(peak.value_bytes) + copies, copies, ids, int(gradient_bytes(peak, columns)))
