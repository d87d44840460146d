"""More of each part of a plan's hardware that its step may depend on, each as a change to the question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from emplace.placement.datasheet import datasheet_cost_model, follows_datasheet
from emplace.placement.host import DeviceKind, DeviceType
from emplace.placement.model import ComputeKernel, Tier
from emplace.placement.plan import Plan, Question
from emplace.placement.topology import Topology
from emplace.placement.units import format_rate, format_size
from emplace.solver.infeasibility.hardware_patches import devices_patch, more_hbm, nodes_patch
from emplace.solver.infeasibility.merge_patch import Edit, patched

MORE = 0.1
"""Share of a rate, or of a node's system memory, that is added."""
FULL = 0.95
"""Share of a node's system memory from which on it may bind."""
_GIB = 2**30
_FROM_SYSTEM_MEMORY = (ComputeKernel.FUSED_UVM, ComputeKernel.FUSED_UVM_CACHING)
SAME_RANKS = ("hbm", "ddr", "memory_bandwidth", "system_link", "intra_node_link", "network", "server_bandwidth", "server_network")
"""Kinds of changes that leave every rank where it is, so that the plan's placement is one of the changed question too."""


def changed(question: Question, edit: Edit) -> Question:
    """The question with the change; where its prices follow from the host's rates, they follow. Raises InvalidDocument."""
    after = patched(question, edit.patch)
    if not follows_datasheet(question.cost_model, question.host):
        return after
    return after.model_copy(update={"cost_model": datasheet_cost_model(after.host, question.cost_model.stack)})


def hardware_changes(question: Question, plan: Plan) -> Iterator[Edit]:
    """More memory, nodes and servers; and faster memories and links that the plan uses, where prices follow from them.

    `question` is the plan's, with the job size that the plan is for.
    """
    topology = plan.topology()
    yield from _more_memory(question, plan)
    nodes = topology.trainer_nodes
    if Tier.CPU not in question.allowed_tiers:
        yield Edit(f"one node more, {nodes + 1}", "nodes", nodes_patch(question, nodes + 1))
    remote = question.host.remote_servers
    if remote is not None and Tier.REMOTE in question.allowed_tiers:
        patch = {"host": {"remote_servers": {"count": remote.count + 1}}}
        yield Edit(f"one remote server more, {remote.count + 1}", "remote_servers", patch)
    if follows_datasheet(question.cost_model, question.host):
        yield from _faster_devices(question, plan, topology)
        yield from _faster_links(question, topology)


def _more_memory(question: Question, plan: Plan) -> Iterator[Edit]:
    host, tiers = question.host, question.allowed_tiers
    if Tier.HBM in tiers and host.has_cuda:
        yield Edit("+1 GiB of HBM on each device", "hbm", devices_patch(host, lambda device: more_hbm(device, _GIB)))
    fullest = max((node.ddr_bytes / max(node.ddr_capacity_bytes, 1) for node in plan.nodes[: plan.topology().trainer_nodes]), default=0.0)
    if tiers & {Tier.DDR, Tier.CPU} and fullest >= FULL:
        extra = max(round(MORE * host.node.ddr_capacity / _GIB), 1) * _GIB
        patch = {"host": {"node": {"ddr_capacity": format_size(host.node.ddr_capacity + extra)}}}
        yield Edit(f"+{format_size(extra)} of system memory in each node", "ddr", patch)


def _faster_devices(question: Question, plan: Plan, topology: Topology) -> Iterator[Edit]:
    for kind in dict.fromkeys(rank.device for rank in topology.trainers):
        device = next(each for each in question.host.node.devices if each.kind == kind)
        memory = "HBM" if device.type is DeviceType.CUDA else "memory"
        yield _faster_device(question, device, "memory_bandwidth", device.memory_bandwidth, f"of {memory} of each {kind}")
        uses_link = any(
            placement.compute_kernel in _FROM_SYSTEM_MEMORY and any(topology.ranks[shard.rank].device == kind for shard in placement.shards)
            for placement in plan.tables
        )
        if device.system_link is not None and (uses_link or topology.served_tier is Tier.CPU):
            yield _faster_device(question, device, "system_link", device.system_link, f"between each {kind} and system memory")


def _faster_device(question: Question, device: DeviceKind, key: str, rate: float, where: str) -> Edit:
    def faster(each: DeviceKind) -> DeviceKind:
        return each.model_copy(update={key: _more(rate)}) if each.kind == device.kind else each

    return Edit(_rise(rate, where), key, devices_patch(question.host, faster))


def _faster_links(question: Question, topology: Topology) -> Iterator[Edit]:
    node, remote = question.host.node, question.host.remote_servers
    if topology.trainers_per_node > 1:
        yield _faster("node", "intra_node_link", node.intra_node_link, "of each device inside its node")
    if topology.trainer_nodes > 1 or topology.remote_servers or question.host.dense_servers:
        yield _faster("node", "network", node.network, "of each node to others")
    if topology.served_tier is Tier.CPU and node.ddr_bandwidth is not None:
        yield _faster("node", "ddr_bandwidth", node.ddr_bandwidth, "of all system memory", "memory_bandwidth")
    if topology.remote_servers and remote is not None:
        yield _faster("remote_servers", "memory_bandwidth", remote.memory_bandwidth, "of memory of each remote server", "server_bandwidth")
        yield _faster("remote_servers", "network", remote.network, "of network of each remote server", "server_network")


def _faster(part: str, key: str, rate: float, where: str, kind: str | None = None) -> Edit:
    edit = Edit(_rise(rate, where), key, {"host": {part: {key: format_rate(_more(rate))}}})
    return edit if kind is None else replace(edit, kind=kind)


def _more(rate: float) -> float:
    return float(round(rate * (1 + MORE)))


def _rise(rate: float, where: str) -> str:
    return f"+{_gb(_more(rate) - rate)} GB/s {where}, {_gb(_more(rate))}"


def _gb(rate: float) -> str:
    """GB/s without zeros that say nothing."""
    return f"{rate / 1e9:,.2f}".rstrip("0").rstrip(".")
