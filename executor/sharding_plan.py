"""From the exported JSON to TorchRec's own ShardingPlan."""

from __future__ import annotations

from typing import Any

from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode
from torchrec.distributed.types import (
    CacheParams,
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ParameterSharding,
    ShardingPlan,
    ShardMetadata,
)


def sharding_plan(exported: dict[str, Any]) -> ShardingPlan:
    """What `to_torchrec` wrote, as TorchRec's types. An id outside its table ends the program instead of training on garbage."""
    return ShardingPlan(
        plan={
            path: EmbeddingModuleShardingPlan({table: _parameter_sharding(**sharding) for table, sharding in tables.items()})
            for path, tables in exported["plan"].items()
        }
    )


def _parameter_sharding(
    sharding_type: str,
    compute_kernel: str,
    ranks: list[int],
    sharding_spec: dict[str, Any] | None,
    cache_params: dict[str, Any] | None = None,
) -> ParameterSharding:
    return ParameterSharding(
        sharding_type=sharding_type,
        compute_kernel=compute_kernel,
        ranks=ranks,
        sharding_spec=sharding_spec and EnumerableShardingSpec([ShardMetadata(**shard) for shard in sharding_spec["shards"]]),
        cache_params=cache_params and CacheParams(**cache_params),
        bounds_check_mode=BoundsCheckMode.FATAL,
    )
