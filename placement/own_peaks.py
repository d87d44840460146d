"""What single ranks on CPUs peak at, where a model has sequences: each at a moment of its own.

While vectors are sent, a rank holds those of its shards twice. In the backward a trainer holds the vectors of its own sequences and their
gradients, and shards hold none. A rank peaks at the fuller moment. A node's sum counts what shards hold: all vectors come from some shard,
so where its ranks have all shards that is as much as they hold in the backward.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emplace.placement.host import DeviceType
from emplace.placement.memory import own_sequence_bytes
from emplace.placement.model import Table
from emplace.placement.plan import Question, TablePlacement
from emplace.placement.topology import Topology
from emplace.placement.workload import TableLoad, shard_workload


def beyond_shards_bytes(
    question: Question, placements: Sequence[TablePlacement], loads: Sequence[TableLoad], topology: Topology
) -> NDArray[np.int64]:
    """[R] how much more system memory each rank peaks at than its part of its node's sum. `loads` are in the model's order."""
    known = {table.name: (table, load) for table, load in zip(question.model.tables, loads, strict=True) if not load.is_pooled}
    sent = np.zeros(len(topology.ranks), dtype=np.int64)
    for placement in placements:
        if placement.name in known:
            _add_sent(sent, placement, *known[placement.name], topology)
    is_trainer = np.array([not rank.is_server and rank.type is not DeviceType.CUDA for rank in topology.ranks])
    return np.where(is_trainer, np.maximum(own_sequence_bytes(question.model, list(loads)) - sent, 0), 0)


def _add_sent(sent: NDArray[np.int64], placement: TablePlacement, table: Table, load: TableLoad, topology: Topology) -> None:
    """Add the bytes that each rank holds of the vectors of its shards of one table, their copies included ([R])."""
    for shard in placement.shards:
        columns, on_server = shard.columns[1] - shard.columns[0], topology.ranks[shard.rank].is_server
        share = load.row_share(shard.rows[0], shard.rows[1] - shard.rows[0], table.num_embeddings)
        peak = shard_workload(load, placement.sharding_type, share, columns, topology, on_server=on_server).peak
        sent[shard.rank] += int(peak.vectors) * columns * int(peak.value_bytes + peak.copied_bytes)
