"""How full the memories of a plan are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emplace.placement.plan import Plan


@dataclass(frozen=True)
class MemoryUse:
    """What a plan has in one memory."""

    where: str
    used_bytes: int
    capacity_bytes: int

    @property
    def share(self) -> float:
        """The used share."""
        return self.used_bytes / self.capacity_bytes


def fullest_memory(plan: Plan) -> MemoryUse | None:
    """The memory of a device or a node of which the largest share is used; None where the plan has none."""
    return max(_memories(plan), key=lambda memory: memory.share, default=None)


def _memories(plan: Plan) -> Iterator[MemoryUse]:
    for rank in plan.ranks:
        if rank.hbm_capacity_bytes:
            yield MemoryUse(f"hbm of rank {rank.rank}", rank.hbm_bytes, rank.hbm_capacity_bytes)
    for node in plan.nodes:
        if node.ddr_capacity_bytes:
            yield MemoryUse(f"ddr of node {node.node}", node.ddr_bytes, node.ddr_capacity_bytes)
