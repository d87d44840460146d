"""Which ranks a chart has room for, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from emplace.placement.plan import Plan, RankLoad

MOST_SHOWN = 256
_IDLE_SHOWN = 64


def shown_ranks(loads: Sequence[float], *, by_load: bool) -> list[int]:
    """Indices of ranks, by number or with the most loaded first. Of too many, the most loaded and the least loaded."""
    by_loads = sorted(range(len(loads)), key=lambda index: (-loads[index], index))
    if len(loads) > MOST_SHOWN:
        by_loads = by_loads[: MOST_SHOWN - _IDLE_SHOWN] + by_loads[-_IDLE_SHOWN:]
    return by_loads if by_load else sorted(by_loads)


def rank_label(rank: RankLoad) -> str:
    return f"server {rank.rank}" if rank.is_server else f"rank {rank.rank}"


def server_machines(plan: Plan) -> dict[int, RankLoad]:
    """Servers that are machines of their own, by their nodes."""
    trainers = {rank.node for rank in plan.ranks if not rank.is_server}
    return {rank.node: rank for rank in plan.ranks if rank.node not in trainers}


def node_label(node: int, server: RankLoad | None) -> str:
    """A server is called as its rank is."""
    return f"node {node}" if server is None else rank_label(server)
