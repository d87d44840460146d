"""A plan as plain JSON that a TorchRec program turns into a ShardingPlan. Imports no torch.

docs/how-to/torchrec.md shows the three lines that load it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emplace.executor.errors import NotRunnableHere
from emplace.placement.host import DeviceType
from emplace.placement.plan import Plan
from emplace.placement.topology import Topology
from emplace.runtime.torchrec_json import parameter_sharding

MIXED_DEVICES = (
    "CUDA trainers beside servers, remote or the CPUs of their node, can't run: TorchRec's DistributedModelParallel has one kind of "
    "device for all ranks"
)


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
        "plan": _by_module(plan, devices),
    }


def _by_module(plan: Plan, devices: Sequence[str]) -> dict[str, dict[str, Any]]:
    model, found = plan.question.model, dict[str, dict[str, Any]]()
    modules = {table.name: model.module_of(table) for table in model.tables}
    for table in plan.tables:
        module = modules[table.name]
        found.setdefault(module.path, {})[table.name] = parameter_sharding(table, devices, module)
    return found


def plan_topology(plan: Plan) -> Topology:
    """The ranks of a plan, servers last. Raises NotRunnableHere for CUDA trainers beside remote servers."""
    topology = plan.topology()
    if topology.servers and any(rank.type is DeviceType.CUDA for rank in topology.ranks):
        raise NotRunnableHere(MIXED_DEVICES)
    return topology


def local_world_size(topology: Topology) -> int:
    """Ranks on each node. With servers, which are nodes of one rank, it is 1: the sharding types beside servers don't use it."""
    return 1 if topology.servers else topology.trainers_per_node


def _device(topology: Topology, rank: int) -> str:
    if topology.ranks[rank].type is DeviceType.CUDA:
        return f"cuda:{rank % topology.trainers_per_node}"
    return "cpu"
