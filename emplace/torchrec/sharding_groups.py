"""The sharding groups of a DMPCollection: each holds all tables once, and all are sharded alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchrec.distributed.planner.types import PlannerError, PlannerErrorType, Topology


@dataclass(frozen=True)
class ShardingGroups:
    """A job as so many groups that hold the same."""

    world_size: int
    """Ranks of the whole job."""
    topology: Topology
    """The ranks of one group. Its node is what the group has of a node of the job: give DMPCollection its local_world_size as node_group_size."""
    replicas: list[list[int]]
    """For each rank of a group, the ranks of the job that have its shards."""


def groups_of(topology: Topology, size: int | None, *, contiguous: bool, host: Any = None) -> ShardingGroups:
    """Groups of so many ranks, as DMPCollection makes them: every so-manieth rank, or neighbours (use_inter_host_allreduce).

    Without a size the job is one group. Raises PlannerError where groups don't divide the job, or a node, evenly.
    """
    world, per_node = topology.world_size, topology.local_world_size
    if size is None:
        return ShardingGroups(world, topology, [[rank] for rank in range(world)])
    if size < 1 or world % size:
        raise _refused(f"sharding_group_size: must divide the topology's {world} ranks, it is {size}")
    if host is not None:
        raise _refused("host: a sharding group has a part of each node only; give a topology its figures, and leave host out")
    groups = world // size
    local = min(size, per_node) if contiguous else max(1, per_node // groups)
    is_inside_nodes = contiguous and size < per_node
    larger, smaller = (per_node, size) if is_inside_nodes else (max(per_node, groups), min(per_node, groups))
    if size % local or larger % smaller:
        raise _refused(f"sharding_group_size: groups of {size} ranks don't lie evenly on nodes of {per_node}; take another size")
    if contiguous:
        replicas = [[group * size + rank for group in range(groups)] for rank in range(size)]
    else:
        replicas = [[rank * groups + group for group in range(groups)] for rank in range(size)]
    return ShardingGroups(world, _smaller(topology, size, local), replicas)


def _smaller(topology: Topology, ranks: int, per_node: int) -> Topology:
    """As many ranks, with the same memories and rates each."""
    storage = topology.devices[0].storage
    return Topology(
        world_size=ranks,
        compute_device=topology.compute_device,
        hbm_cap=storage.hbm,
        ddr_cap=storage.ddr,
        local_world_size=per_node,
        hbm_mem_bw=topology.hbm_mem_bw,
        ddr_mem_bw=topology.ddr_mem_bw,
        hbm_to_ddr_mem_bw=topology.hbm_to_ddr_mem_bw,
        intra_host_bw=topology.intra_host_bw,
        inter_host_bw=topology.inter_host_bw,
    )


def _refused(text: str) -> PlannerError:
    return PlannerError(f"EmplaceShardingPlanner can't honour\n  - {text}", PlannerErrorType.INPUT_VALIDATION)
