"""How a table's placement is spelt for TorchRec, as plain JSON. Imports no torch.

An object with the key CLASS is written with the name of its class in torchrec.distributed.types; its other keys are that class's
arguments. runtime.sharding_plan makes those objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emplace.placement.model import DataType, ShardingType
from emplace.placement.modules import ONE_MODULE, Module
from emplace.placement.plan import Shard, TablePlacement

CLASS = "@class"
"""The key that says which class an object is of. No table can have this name."""


def parameter_sharding(table: TablePlacement, devices: Sequence[str], module: Module = ONE_MODULE) -> dict[str, Any]:
    """TorchRec's ParameterSharding of one table of `module`; `devices` are the ranks', such as `cpu` or `cuda:0`."""
    sharding: dict[str, Any] = {
        CLASS: "ParameterSharding",
        "sharding_type": table.sharding_type.value,
        "compute_kernel": table.compute_kernel.value,
    }
    if module.output_data_type is not DataType.FP32:
        sharding["output_dtype"] = {CLASS: "DataType", "value": module.output_data_type.upper()}
    if table.sharding_type is ShardingType.DATA_PARALLEL:
        return sharding | {"ranks": list(range(len(devices))), "sharding_spec": None}
    shards = in_torchrec_order(table)
    sharding["ranks"] = [shard.rank for shard in shards]
    sharding["sharding_spec"] = {CLASS: "EnumerableShardingSpec", "shards": [_shard(shard, devices) for shard in shards]}
    if table.cache_load_factor is not None:
        sharding["cache_params"] = {CLASS: "CacheParams", "load_factor": table.cache_load_factor}
    return sharding


def in_torchrec_order(table: TablePlacement) -> list[Shard]:
    """The shards as TorchRec reads them: pieces of columns from left to right, and inside a piece blocks of rows by rank."""
    return sorted(table.shards, key=lambda shard: (shard.columns, shard.rank))


def _shard(shard: Shard, devices: Sequence[str]) -> dict[str, Any]:
    return {
        CLASS: "ShardMetadata",
        "shard_offsets": [shard.rows[0], shard.columns[0]],
        "shard_sizes": [shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0]],
        "placement": f"rank:{shard.rank}/{devices[shard.rank]}",
    }
