"""Ranks that weigh the same: those of one device kind, or each one by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.placement.topology import Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BYTES_DOWN = 1 - 1e-15
"""What bytes in floating point are multiplied with before they are held against room: less than one byte, up to 10^15 of them."""


@dataclass(frozen=True)
class RankClasses:
    """G classes of R ranks, P groups of N nodes."""

    of_rank: Ints
    """[R]"""
    of_node: Ints
    """[N]"""
    are_ranks: bool
    """Whether each rank and node is by itself."""

    @classmethod
    def of(cls, topology: Topology, *, each_rank: bool, hottest_place: int | None = None) -> RankClasses:
        """Each rank and node by itself, or kinds of device with servers and the hottest place of each node apart, and the nodes of
        trainers and of servers."""
        nodes = len(topology.node_ddr_capacity_bytes)
        if each_rank:
            return cls(np.arange(len(topology.ranks)), np.arange(nodes), True)
        local = topology.trainers_per_node
        kinds = [(rank.device, rank.is_server, rank.rank % local == hottest_place) for rank in topology.ranks]
        order = list(dict.fromkeys(kinds))
        is_server_node = np.arange(nodes) >= topology.trainer_nodes
        return cls(np.array([order.index(kind) for kind in kinds]), is_server_node.astype(np.int64), False)

    @property
    def sizes(self) -> Ints:
        """[G] how many ranks are in each class."""
        return np.bincount(self.of_rank)

    @property
    def groups(self) -> int:
        """P."""
        return int(self.of_node.max()) + 1


@dataclass(frozen=True)
class MemoryLeft:
    """What is left beside what ranks hold anyway, in bytes; below zero where that is too much."""

    hbm: tuple[int, ...]
    """[R]"""
    ddr: tuple[int, ...]
    """[N]"""

    @property
    def is_enough(self) -> bool:
        """Whether ranks can be without any table."""
        return min(self.hbm) >= 0 and min(self.ddr) >= 0
