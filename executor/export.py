"""A plan as plain JSON that a TorchRec program turns into a ShardingPlan. Imports no torch.

An object with the key CLASS is written with the name of its class in torchrec.distributed.types; its other keys are that class's
arguments. docs/execution.md shows the three lines that load it.
"""

from __future__ import annotations

from typing import Any

from executor.errors import NotRunnableHere
from placement.host import DeviceType
from placement.model import ShardingType
from placement.plan import Plan, Shard, TablePlacement
from placement.topology import Topology
from profiler.module_path import MODULE_PATH

CLASS = "@class"
"""No table can have this name."""

MIXED_DEVICES = "CUDA trainers beside remote servers can't run: TorchRec's DistributedModelParallel has one kind of device for all ranks"


def to_torchrec(plan: Plan) -> dict[str, Any]:
    """`{"world_size", "local_world_size", "plan": {module path: {table: parameter sharding}}}`.

    A plan with remote servers also says how many of the ranks are `trainers`: those after them hold tables and feed empty
    batches. Raises NotRunnableHere for a plan without a placement, or with CUDA trainers beside remote servers.
    """
    if not plan.has_placement:
        raise NotRunnableHere(f"the plan is {plan.status}: it has no placement")
    topology = plan_topology(plan)
    devices = [_device(topology, rank.rank) for rank in topology.ranks]
    trainers = {"trainers": len(topology.trainers)} if topology.servers else {}
    return trainers | {
        "schema_version": 1,
        "world_size": len(topology.ranks),
        "local_world_size": local_world_size(topology),
        "plan": {MODULE_PATH: {table.name: _parameter_sharding(table, devices) for table in plan.tables}},
    }


def plan_topology(plan: Plan) -> Topology:
    """The ranks of a plan, servers last. Raises NotRunnableHere for CUDA trainers beside remote servers."""
    topology = plan.topology()
    if topology.servers and any(rank.type is DeviceType.CUDA for rank in topology.ranks):
        raise NotRunnableHere(MIXED_DEVICES)
    return topology


def local_world_size(topology: Topology) -> int:
    """Ranks on each node. Servers are nodes of one rank: a job with them is told that of all, which its sharding types ignore."""
    return 1 if topology.servers else topology.trainers_per_node


def _device(topology: Topology, rank: int) -> str:
    if topology.ranks[rank].type is DeviceType.CUDA:
        return f"cuda:{rank % topology.trainers_per_node}"
    return "cpu"


def _parameter_sharding(table: TablePlacement, devices: list[str]) -> dict[str, Any]:
    sharding: dict[str, Any] = {
        CLASS: "ParameterSharding",
        "sharding_type": table.sharding_type.value,
        "compute_kernel": table.compute_kernel.value,
    }
    if table.sharding_type is ShardingType.DATA_PARALLEL:
        return sharding | {"ranks": list(range(len(devices))), "sharding_spec": None}
    # TorchRec reads the order: pieces of columns from left to right, and inside a piece blocks of rows by rank.
    shards = sorted(table.shards, key=lambda shard: (shard.columns, shard.rank))
    sharding["ranks"] = [shard.rank for shard in shards]
    sharding["sharding_spec"] = {CLASS: "EnumerableShardingSpec", "shards": [_shard(shard, devices) for shard in shards]}
    if table.cache_load_factor is not None:
        sharding["cache_params"] = {CLASS: "CacheParams", "load_factor": table.cache_load_factor}
    return sharding


def _shard(shard: Shard, devices: list[str]) -> dict[str, Any]:
    return {
        CLASS: "ShardMetadata",
        "shard_offsets": [shard.rows[0], shard.columns[0]],
        "shard_sizes": [shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0]],
        "placement": f"rank:{shard.rank}/{devices[shard.rank]}",
    }
