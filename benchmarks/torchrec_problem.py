"""TorchRec's sharding options as a placement problem, and an assignment back as a TorchRec plan."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from torchrec.distributed.planner.types import PartitionByType, ShardingOption, Topology

from emplace.solver.model.problem import Assignment, Problem, Scope, target_devices

_SCOPES = {
    PartitionByType.DEVICE.value: Scope.DEVICE,
    PartitionByType.HOST.value: Scope.NODE,
    PartitionByType.MULTI_HOST.value: Scope.NODE,
    PartitionByType.UNIFORM.value: Scope.WORLD,
}


@dataclass(frozen=True)
class TorchRecProblem:
    """`options[o]` is what option o of `problem` stands for."""

    problem: Problem
    options: tuple[ShardingOption, ...]


def problem_of(options: list[ShardingOption], tables: list[str], topology: Topology) -> TorchRecProblem:
    """One stage: TorchRec rates a plan by its slowest rank's sum of shard totals, in milliseconds (kept as such)."""
    usable = [option for option in options if _is_distinct(option, topology.local_world_size)]
    # TorchRec enumerates sets, in an order that changes; the search's path depends on it.
    usable.sort(key=lambda option: (option.sharding_type, option.compute_kernel))
    kept = [option for table in tables for option in usable if option.name == table]
    units = [_units(option, topology.local_world_size) for option in kept]
    loads = np.array([load for option_units in units for load in option_units])
    devices = np.arange(topology.world_size)
    problem = Problem(
        device_kind=np.zeros_like(devices),
        device_node=devices // topology.local_world_size,
        device_is_trainer=np.ones(len(devices), dtype=np.bool_),
        device_pool=devices,
        hbm_capacity=np.array([device.storage.hbm for device in topology.devices]),
        ddr_capacity=np.array([device.storage.ddr for device in topology.devices]),
        constant_us=0.0,
        stage_base_us=np.zeros(1),
        option_table=np.array([tables.index(option.name) for option in kept]),
        option_scope=np.array([_SCOPES[option.partition_by] for option in kept]),
        option_kind=np.array([0 if option.partition_by == PartitionByType.DEVICE.value else -1 for option in kept]),
        option_first_unit=np.append(0, np.cumsum([len(option_units) for option_units in units])),
        unit_time_us=loads[:, None, 0:1],
        unit_hbm_bytes=loads[:, None, 1].astype(np.int64),
        unit_ddr_bytes=loads[:, None, 2].astype(np.int64),
    )
    return TorchRecProblem(problem, tuple(kept))


def plan_of(torchrec: TorchRecProblem, assignment: Assignment) -> list[ShardingOption]:
    """The chosen options with ranks on their shards: what TorchRec's own perf model rates."""
    plan = []
    for chosen, targets in zip(assignment.option, assignment.targets, strict=True):
        option = copy.copy(torchrec.options[chosen])
        option.shards = copy.deepcopy(option.shards)
        scope = Scope(torchrec.problem.option_scope[chosen])
        ranks = [rank for target in targets for rank in target_devices(torchrec.problem, scope, target)]
        for shard, rank in zip(option.shards, ranks, strict=True):
            shard.rank = int(rank)
        plan.append(option)
    return plan


def _is_distinct(option: ShardingOption, local_world_size: int) -> bool:
    """Leaves out what another option says already: column-wise in one piece is table-wise, and the pieces of
    table_column_wise, priced like those of column_wise, need not share a node."""
    if option.sharding_type == "table_column_wise":
        return False
    if option.sharding_type == "column_wise":
        return len(option.shards) > 1
    return option.sharding_type != "grid_shard" or len(option.shards) > local_world_size


def _units(option: ShardingOption, local_world_size: int) -> list[tuple[float, int, int]]:
    """(ms, hbm bytes, ddr bytes) of each unit. A unit over several devices counts its largest shard on each."""
    shards = [(shard.perf.total, shard.storage.hbm, shard.storage.ddr) for shard in option.shards]
    per_unit = {Scope.DEVICE: 1, Scope.NODE: local_world_size, Scope.WORLD: len(shards)}[_SCOPES[option.partition_by]]
    return [
        tuple(max(values) for values in zip(*shards[first : first + per_unit], strict=True)) for first in range(0, len(shards), per_unit)
    ]
