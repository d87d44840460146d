"""A plan as plain JSON that a TorchRec program turns into a ShardingPlan. Imports no torch.

docs/how-to/torchrec.md shows the three lines that load it.
"""

from __future__ import annotations

from typing import Any

from emplace.executor.errors import NotRunnableHere
from emplace.executor.live_names import live_path, short_name
from emplace.placement.host import DeviceType
from emplace.placement.plan import Plan
from emplace.placement.topology import Topology
from emplace.runtime.torchrec_json import parameter_sharding

MIXED_DEVICES = (
    "CUDA trainers beside servers, remote or the CPUs of their node, can't run: TorchRec's DistributedModelParallel has one kind of "
    "device for all ranks"
)


def to_torchrec(plan: Plan) -> dict[str, Any]:
    """`{"world_size", "local_world_size", "plan": {module path: {table: parameter sharding}}}`, as the live model calls them that a
    model was described from.

    A plan with remote servers also says how many of the ranks are `trainers`: those after them hold tables and feed empty
    batches. Raises NotRunnableHere for a plan without a placement, or with CUDA trainers beside remote servers.
    """
    if not plan.has_placement:
        raise NotRunnableHere(f"the plan is {plan.status}: it has no placement")
    topology = plan_topology(plan)
    trainers = {"trainers": len(topology.trainers)} if topology.servers else {}
    return trainers | {
        "schema_version": 1,
        "world_size": len(topology.ranks),
        "local_world_size": local_world_size(topology),
        "plan": _as_live(module_shardings(plan)),
    }


def _as_live(modules: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By the live model's names. A table has a longer one in a document only where there are several modules."""
    if len(modules) == 1:
        return {live_path(path): tables for path, tables in modules.items()}
    return {live_path(path): {short_name(path, name): each for name, each in tables.items()} for path, tables in modules.items()}


def module_shardings(plan: Plan) -> dict[str, dict[str, Any]]:
    """`{module path: {table: parameter sharding}}`, as the plan's model calls them. Raises NotRunnableHere as `plan_topology` does."""
    topology = plan_topology(plan)
    devices = [_device(topology, rank.rank) for rank in topology.ranks]
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
