"""What single ranks on CPUs peak at, where a model has sequences: each at a moment of its own.

A collection's tables of one sharding type are looked up and sent together, one group after the other in the order of the model's modules and
tables. A rank holds the vectors that its shards looked up until those of the next group are looked up, what it sends of them until all
groups are on their way, and the vectors of its own sequences as far as they came; ids of whole rows once more than later. In the backward,
which takes groups in the other order, a trainer first puts the gradients of all its own sequences together and sends them, while the first
of others come; then its shards put those of one group after the other in order and add them up row by row. A rank peaks at the fullest of
these moments. A node's sum counts what shards hold, whichever the moment: it is what must fit, and all vectors of sequences come from some
shard. (The order is that of TorchRec's sharded collections and of autograd.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emplace.placement.host import DeviceType
from emplace.placement.memory import arrived_bytes, beside_sequences_bytes, gradient_bytes, row_bytes
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType, Table
from emplace.placement.modules import ONE_MODULE
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.topology import Topology
from emplace.placement.workload import ROW_SPLIT, TableLoad, shard_workload

_PLACED_ID_BYTES = 16
"""What each id of a trainer's own batch takes besides in the backward where rows are split: 20 to 25 bytes were measured over gloo with 32
columns, up to 11 with 128, beside vectors that are reckoned at the 99.9th percentile."""

_GRADIENT_PACE = 2
"""A trainer puts together so many bytes of gradients while one comes; of vectors it looks up as many as come. Over gloo, two ranks to a core."""


class _Passing(NamedTuple):
    """Bytes that a shard holds for a part of the step only."""

    looked_up: int
    """Vectors; of a replicated table its gradients too, before they are summed up."""
    copies: int = 0
    """What is sent of the vectors; gradients that come are as many."""
    ids: int = 0
    """Those that vectors were looked up for, as they came from all ranks, beside those that are kept; of a whole row, not of a block of rows."""
    of_rows: int = 0
    """Gradients of rows that are added up."""


class _Group:
    """A collection's tables of one sharding type: bytes as in _Passing, [R] each; and of a trainer's own sequences `arrived`, the bytes of their
    vectors, and `placed_ids`, the ids whose vectors come from several blocks of rows."""

    def __init__(self, ranks: int) -> None:
        self.looked_up, self.copies, self.ids, self.of_rows = np.zeros((4, ranks), dtype=np.int64)
        self.arrived = self.placed_ids = 0

    def add(self, rank: int, passing: _Passing) -> None:
        for held, more in zip((self.looked_up, self.copies, self.ids, self.of_rows), passing, strict=True):
            held[rank] += more


def beyond_shards_bytes(
    question: Question, placements: Sequence[TablePlacement], loads: Sequence[TableLoad], topology: Topology
) -> NDArray[np.int64]:
    """[R] how much more system memory each rank peaks at than its part of its node's sum; less than nothing where what its shards hold is
    never there at once. `loads` are in the model's order."""
    is_trainer = np.array([not rank.is_server and rank.type is not DeviceType.CUDA for rank in topology.ranks])
    nothing = np.zeros(len(topology.ranks), dtype=np.int64)
    if not is_trainer.any() or all(load.is_pooled for load in loads):
        return nothing
    modules = _modules(question.model, placements, loads, topology)
    groups = [group for module in modules for group in module]
    if not any(group.arrived for group in groups):
        return nothing
    beside = beside_sequences_bytes(question.model, list(loads)) + _PLACED_ID_BYTES * sum(group.placed_ids for group in groups)
    all_held = np.sum([group.looked_up + group.copies + group.of_rows for group in groups], axis=0)
    return np.where(is_trainer, np.maximum(_forward(modules), _backward(groups, beside)) - all_held, 0)


def _modules(model: ModelSpec, placements: Sequence[TablePlacement], loads: Sequence[TableLoad], topology: Topology) -> list[list[_Group]]:
    """Each module's groups, in the model's order."""
    placed = {placement.name: placement for placement in placements}
    found = {
        module.path: defaultdict[ShardingType, _Group](lambda: _Group(len(topology.ranks))) for module in model.modules or (ONE_MODULE,)
    }
    for table, load in zip(model.tables, loads, strict=True):
        if (placement := placed.get(table.name)) is None:
            continue
        group = found[model.module_of(table).path][placement.sharding_type]
        if not load.is_pooled:
            group.arrived += arrived_bytes(table, load)
            group.placed_ids += int(load.local_batch_ids) if placement.sharding_type in ROW_SPLIT else 0
        for shard in placement.shards:
            group.add(shard.rank, _passing(placement, shard, table, load, topology))
    return [list(groups.values()) for groups in found.values()]


def _forward(modules: Sequence[Sequence[_Group]]) -> NDArray[np.int64]:
    """[R] at the fullest moment of the lookups: when a group's vectors are there, or their copies too."""
    ids = np.sum([group.ids for module in modules for group in module], axis=0)
    on_their_way, due = np.zeros((2, len(ids)), dtype=np.int64)
    moments = []
    for module in modules:
        # A module's ids are exchanged first, and ranks wait for each other.
        came, before = due, np.zeros_like(due)
        for group in module:
            came = np.minimum(due, came + group.looked_up)
            moments.append(before + on_their_way + group.looked_up + came)
            came = np.minimum(due, came + group.copies)
            moments.append(on_their_way + group.looked_up + group.copies + came)
            before, on_their_way, due = group.looked_up, on_their_way + group.copies, due + group.arrived
    return np.asarray(ids + np.max(moments, axis=0))


def _backward(groups: Sequence[_Group], beside: int) -> NDArray[np.int64]:
    """[R] at the fullest moment of the backward: when a group's gradients are put together, come, are put in order or added up by rows."""
    own, due, came = sum(group.arrived for group in groups), *np.zeros((2, len(groups[0].copies)), dtype=np.int64)
    moments = []
    for group in reversed(groups):
        came = np.minimum(due, came + group.arrived // _GRADIENT_PACE)
        moments.append(beside + own + group.arrived + came)
        due = due + group.copies
    waiting = own + due
    for group in reversed(groups):
        moments.append(waiting)
        waiting = waiting - group.arrived - group.copies
        moments.append(waiting + group.copies + np.maximum(group.copies, group.of_rows))
    return np.asarray(np.max(moments, axis=0))


def _passing(placement: TablePlacement, shard: Shard, table: Table, load: TableLoad, topology: Topology) -> _Passing:
    rows, columns = shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0]
    share = load.row_share(shard.rows[0], rows, table.num_embeddings)
    on_server = topology.ranks[shard.rank].is_server
    peak = shard_workload(load, placement.sharding_type, share, columns, topology, on_server=on_server).peak
    values = int(peak.vectors) * columns
    looked_up = values * int(peak.value_bytes)
    if placement.compute_kernel is ComputeKernel.DENSE:
        return _Passing(looked_up + rows * int(row_bytes(table.data_type, columns)))
    ids = 0 if load.is_pooled or peak.placed_ids else int(peak.ids) * int(peak.id_bytes)
    return _Passing(looked_up, values * int(peak.copied_bytes), ids, int(gradient_bytes(peak, columns)))
