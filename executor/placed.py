"""The placement that really happened: every part of a table that this rank holds, read from the running model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed._shard.sharded_tensor.api import ShardedTensor
from torchrec.distributed.model_parallel import DistributedModelParallel

from emplace.executor.job import HeldShard
from emplace.runtime.training import table_of


@dataclass
class LocalPart:
    """A part of a table on this rank: [start, end) of rows and columns. Writing to `weights` changes the model."""

    parameter: str
    table: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    weights: Tensor


def local_parts(dmp: DistributedModelParallel) -> Iterator[LocalPart]:
    """Every part of a table on this rank. Where it starts comes from its metadata; how large it is, from the tensor itself."""
    for name, value in dmp.state_dict().items():
        table = table_of(name)
        if table is None:
            continue
        pieces: list[tuple[Any, Tensor]] = [((0, 0), value)]
        if isinstance(value, ShardedTensor):
            pieces = [(shard.metadata.shard_offsets, shard.tensor) for shard in value.local_shards()]
        for (row, column), weights in pieces:
            yield LocalPart(name, table, (row, row + weights.shape[0]), (column, column + weights.shape[1]), weights)


def held_shards(dmp: DistributedModelParallel) -> tuple[HeldShard, ...]:
    """Everything this rank holds, with the kernel that computes it."""
    kernels = {
        config.name: (sharding_type, config.compute_kernel.value)
        for collection in dmp.module.collections
        for sharding_type, lookup in zip(collection._sharding_types, collection._lookups, strict=True)
        for group in getattr(lookup, "module", lookup).grouped_configs
        for config in group.embedding_tables
    }
    return tuple(
        HeldShard(
            table=part.table,
            sharding_type=kernels[part.table][0],
            compute_kernel=kernels[part.table][1],
            rank=dist.get_rank(),
            rows=part.rows,
            columns=part.columns,
        )
        for part in local_parts(dmp)
    )
