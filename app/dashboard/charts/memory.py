"""What fills the memory of each rank and node: its largest tables, against what there is room for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from emplace.app.dashboard.charts.ranks import node_label, rank_label, server_machines, shown_ranks
from emplace.placement.plan import Plan

LARGEST = 3
"""So many tables of a memory are parts of their own."""
_KEYS = ("first", "second", "third")


@dataclass(frozen=True)
class MemoryPart:
    """Bytes of a memory; `key` names the colour, `title` a table or what the bytes are."""

    key: str
    title: str
    bytes: int


@dataclass(frozen=True)
class Memory:
    """One memory: tables may fill it up to `limit_bytes`, and the rest of `capacity_bytes` is the reserve."""

    label: str
    parts: tuple[MemoryPart, ...]
    used_bytes: int
    limit_bytes: int
    capacity_bytes: int


@dataclass(frozen=True)
class MemoryChart:
    """Memories on one scale."""

    title: str
    memories: tuple[Memory, ...]
    scale_bytes: int
    left_out: int = 0


def memory_charts(plan: Plan, *, by_load: bool = False) -> list[MemoryChart]:
    """Device memory of ranks that have any, then the system memory of nodes."""
    return [chart for chart in (_devices(plan, by_load=by_load), _nodes(plan, by_load=by_load)) if chart is not None]


def _devices(plan: Plan, *, by_load: bool) -> MemoryChart | None:
    ranks = [rank for rank in plan.ranks if rank.hbm_capacity_bytes]
    if not ranks:
        return None
    held = _held(((shard.rank, table.name, shard.hbm_bytes) for table in plan.tables for shard in table.shards), len(plan.ranks))
    kinds = {device.kind: device.hbm_capacity or 0 for device in plan.question.host.node.devices}
    order = shown_ranks([rank.hbm_bytes for rank in ranks], by_load=by_load)
    memories = [
        _memory(rank_label(rank), held[rank.rank], rank.hbm_bytes, rank.hbm_capacity_bytes, kinds[rank.device])
        for rank in (ranks[index] for index in order)
    ]
    return _chart("Device memory of each rank", memories, len(ranks) - len(order))


def _nodes(plan: Plan, *, by_load: bool) -> MemoryChart | None:
    if not any(node.ddr_bytes for node in plan.nodes):
        return None
    of_rank = [rank.node for rank in plan.ranks]
    held = _held(((of_rank[shard.rank], table.name, shard.ddr_bytes) for table in plan.tables for shard in table.shards), len(plan.nodes))
    order = shown_ranks([node.ddr_bytes for node in plan.nodes], by_load=by_load)
    host, servers, memories = plan.question.host, server_machines(plan), []
    for node in (plan.nodes[index] for index in order):
        server = servers.get(node.node)
        remote = None if server is None else host.remote_servers
        capacity = host.node.ddr_capacity if remote is None else remote.ddr_capacity
        memories.append(_memory(node_label(node.node, server), held[node.node], node.ddr_bytes, node.ddr_capacity_bytes, capacity))
    return _chart("System memory of each node", memories, len(plan.nodes) - len(order))


def _held(shards: Iterable[tuple[int, str, int]], places: int) -> list[dict[str, int]]:
    """Bytes of each table in each place."""
    held: list[dict[str, int]] = [defaultdict(int) for _ in range(places)]
    for place, name, size in shards:
        if size:
            held[place][name] += size
    return held


def _memory(label: str, held: dict[str, int], used: int, limit: int, capacity: int) -> Memory:
    ordered = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    parts = [MemoryPart(key, name, size) for key, (name, size) in zip(_KEYS, ordered, strict=False)]
    rest = ordered[LARGEST:]
    if rest:
        parts.append(MemoryPart("others", f"{len(rest)} other table{'s' if len(rest) > 1 else ''}", sum(size for _, size in rest)))
    apart = used - sum(held.values())
    if apart > 0:
        parts.append(MemoryPart("apart", "batch, dense layers, buffers", apart))
    return Memory(label, tuple(parts), used, limit, max(capacity, limit))


def _chart(title: str, memories: list[Memory], left_out: int) -> MemoryChart:
    scale = max(max(memory.capacity_bytes, memory.used_bytes) for memory in memories)
    return MemoryChart(title, tuple(memories), scale, left_out)
