"""How a table is sharded and how large its shards are: what their bytes and times are worked out from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emplace.placement.model import ComputeKernel, DataType, Optimizer, ShardingType


@dataclass(frozen=True)
class TableSharding:
    """How a table is split, stored and looked up. The cache's shares broadcast with the arrays of a ShardShape."""

    sharding_type: ShardingType
    kernel: ComputeKernel
    data_type: DataType
    optimizer: Optimizer
    load_factor: Any = 0.0
    """The share of the rows that the cache holds; 0 without a cache."""
    hit_rate: Any = 0.0
    """The share of the lookups that the cache answers; 0 without a cache."""
    miss_rate: Any = None
    """The share that it doesn't; None where that is all others. A bound over several caches at once has fewer of both, and room for
    all rows of a batch."""


@dataclass(frozen=True)
class ShardShape:
    """The rows and columns of a shard: numbers, or arrays for many shards."""

    rows: Any
    columns: Any
    first_row: Any = 0
