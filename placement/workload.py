"""What arrives at a shard in one step: lookups, unique rows, pooled vectors, and the bytes that cross links.

A table's load is a property of the model and the batch; a shard's workload follows from the sharding type, the share of
the rows and the columns it holds, and where the ranks sit. Every formula broadcasts over numpy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from emplace.placement.lengths import LengthDistribution
from emplace.placement.model import ModelSpec, ShardingType, Table
from emplace.placement.sums import add_up
from emplace.placement.topology import Topology

ID_BYTES = 8
LENGTH_BYTES = 8
OUTPUT_BYTES = 4
"""Pooled vectors are fp32 whatever the table's data type."""

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

    `global` counts the batches of all trainers together, `local` that of one. Peak ids are those that memory is held for.
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


def table_load(table: Table, local_batch_size: int, trainers: int, objective: Objective) -> TableLoad:
    """The load of `table` under `trainers` ranks with `local_batch_size` examples each."""
    sizes = (local_batch_size * trainers, local_batch_size)
    lookups = [add_up(_lookups(feature.lengths, size, objective) for feature in table.features) for size in sizes]
    unique = table.accesses.unique_rows(lookups)
    peak = [peak_ids(table, size) for size in sizes]
    bags = [len(table.features) * size for size in sizes]
    uneven = [sum(feature.lengths.variance > 0 for feature in table.features) * size for size in sizes]
    return TableLoad(*lookups, *map(float, unique), *peak, *bags, *uneven)


def peak_ids(table: Table, examples: int) -> int:
    """Ids that memory is held for, of a batch of so many examples: each feature's at MEMORY_QUANTILE."""
    return sum(int(np.ceil(feature.lengths.total_quantile(MEMORY_QUANTILE, examples))) for feature in table.features)


def _lookups(lengths: LengthDistribution, examples: int, objective: Objective) -> float:
    return lengths.total_quantile(0.95, examples) if objective is Objective.P95 else lengths.mean * examples


@dataclass(frozen=True)
class ShardWorkload:
    """What one step asks of one shard, or of many where fields are arrays.

    Bytes are (inside the node, across nodes, over a remote server's own link): what the shard's rank exchanges there. What a server
    exchanges crosses the trainers' links too, an equal part each: `of_each_trainer`.
    """

    lookups: Any
    unique_rows: Any
    peak_ids: Any
    bags: Any
    uneven_bags: Any
    """Bags whose lengths differ, so that each one's end is found anew. In a block of rows all do: it has some of a bag's ids by chance."""
    input_bytes: tuple[Any, Any, Any]
    output_bytes: tuple[Any, Any, Any]
    permuted_vectors: Any
    """Pieces of pooled vectors that are put in order where they arrive. They are counted at the shard that they come from."""
    all_reduce_share: tuple[float, float]
    """(inside the node, across nodes): what an all-reduce of the shard's gradient sends, in times of its weight bytes."""

    def of_each_trainer(self, topology: Topology) -> tuple[Any, Any]:
        """(input, output) bytes that a server's shard exchanges with each trainer."""
        return self.input_bytes[2] / len(topology.trainers), self.output_bytes[2] / len(topology.trainers)


_NO_BYTES = (0.0, 0.0, 0.0)
ROW_SPLIT = {ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD}
"""Sharding types that split rows."""
PERMUTED = {ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD}
"""Sharding types whose pooled vectors arrive as pieces of columns."""


def shard_workload(
    load: TableLoad, sharding_type: ShardingType, row_share: Any, columns: Any, topology: Topology, *, on_server: bool
) -> ShardWorkload:
    """The workload of a shard with this share of the rows (0..1) and so many columns. docs/explanation/cost-model.md derives the bytes."""
    world, local = len(topology.trainers), topology.trainers_per_node
    nodes = topology.trainer_nodes
    if sharding_type is ShardingType.DATA_PARALLEL:
        lookups, unique, peak_ids = load.local_lookups, load.local_unique_rows, load.local_peak_ids
        bags, uneven_bags, share = load.local_bags, load.local_uneven_bags, all_reduce_share(topology)
        return ShardWorkload(lookups, unique, peak_ids, bags, uneven_bags, _NO_BYTES, _NO_BYTES, 0.0, share)
    lookups = load.global_lookups * row_share
    peak_ids = np.ceil(load.global_peak_ids * row_share).astype(np.int64)
    arriving = lookups * ID_BYTES + load.global_bags * LENGTH_BYTES
    near, far = (0.0, 0.0) if on_server else ((local - 1) / world, (world - local) / world)
    served = 1.0 if on_server else 0.0
    bag_bytes = load.global_bags * columns * OUTPUT_BYTES
    if sharding_type in (ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD):
        # Partial sums are reduced inside the node, then each rank sends its part of the batch to the other nodes.
        output_bytes = (bag_bytes * (local - 1) / local, bag_bytes * (nodes - 1) / nodes / local, 0.0)
    else:
        output_bytes = (bag_bytes * near, bag_bytes * far, bag_bytes * served)
    return ShardWorkload(
        lookups,
        load.global_unique_rows * row_share,
        peak_ids,
        load.global_bags,
        load.global_bags if sharding_type in ROW_SPLIT else load.global_uneven_bags,
        (arriving * near, arriving * far, arriving * served),
        output_bytes,
        load.global_bags * _permuted_share(sharding_type, local),
        (0.0, 0.0),
    )


def _permuted_share(sharding_type: ShardingType, trainers_per_node: int) -> float:
    """How many pieces are put in order for each bag of a shard.

    In a grid each of the node's ranks holds a block of the rows of a piece: a bag is counted at all of them, and put in order once.
    """
    if sharding_type not in PERMUTED:
        return 0.0
    return 1.0 / trainers_per_node if sharding_type is ShardingType.GRID_SHARD else 1.0


def all_reduce_share(topology: Topology) -> tuple[float, float]:
    """(inside the node, across nodes): what a rank sends to all-reduce a parameter in a hierarchical ring, in times of its bytes."""
    local, nodes = topology.trainers_per_node, topology.trainer_nodes
    return 2 * (local - 1) / local, 2 * (nodes - 1) / nodes / local


def model_loads(model: ModelSpec, topology: Topology, objective: Objective) -> list[TableLoad]:
    """One load per table, in the model's order."""
    trainers = len(topology.trainers)
    return [table_load(table, model.local_batch_size, trainers, objective) for table in model.tables]
