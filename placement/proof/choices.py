"""The choices of tables: every placement that the audit accepts is one of them, or a mix of some with loads that are no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.placement.model import ShardingType
from emplace.placement.proof.classes import Bools, Floats, Ints, RankClasses
from emplace.placement.stages import PLACED_STAGES

TYPES = tuple(ShardingType)


@dataclass(frozen=True)
class Choices:
    """n choices, table after table, on G classes of R ranks and P groups of nodes."""

    table: Ints
    """[n] rising: the place of the table in the model."""
    kind: Ints
    """[n] place of the sharding type in TYPES."""
    time_us: Floats
    """[n, G, K] on all ranks of a class together."""
    hbm: Floats
    """[n, G] bytes, likewise."""
    ddr: Floats
    """[n, P] bytes on all nodes of a group together."""
    own_us: Floats
    """[n, K] the largest shard of a placement takes at least so much, on average over the choices that it is a mix of."""
    shortest_us: Floats
    """[n, K] the largest shard of a placement that has any of the choice takes at least so much."""
    share: Floats
    """[n] a placement that has any of the choice has at least this share of it."""
    ranks: Bools
    """[n, R] where its shards are, if each rank is by itself; else [n, 0]."""

    @classmethod
    def zeros(cls, count: int, classes: RankClasses) -> Choices:
        """So many of the first table that load nothing. They are filled in."""
        number, stages = len(classes.sizes), len(PLACED_STAGES)
        return cls(
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros((count, number, stages)),
            np.zeros((count, number)),
            np.zeros((count, classes.groups)),
            np.zeros((count, stages)),
            np.zeros((count, stages)),
            np.ones(count),
            np.zeros((count, len(classes.of_rank) if classes.are_ranks else 0), dtype=bool),
        )

    @classmethod
    def joined(cls, parts: list[Choices]) -> Choices:
        """All choices of the parts, of which there is at least one."""
        return cls(
            np.concatenate([part.table for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.time_us for part in parts]),
            np.concatenate([part.hbm for part in parts]),
            np.concatenate([part.ddr for part in parts]),
            np.concatenate([part.own_us for part in parts]),
            np.concatenate([part.shortest_us for part in parts]),
            np.concatenate([part.share for part in parts]),
            np.concatenate([part.ranks for part in parts]),
        )

    def where(self, keep: Bools | Ints | slice) -> Choices:
        """Those in `keep`: a mask [n], or indices."""
        return Choices(
            self.table[keep],
            self.kind[keep],
            self.time_us[keep],
            self.hbm[keep],
            self.ddr[keep],
            self.own_us[keep],
            self.shortest_us[keep],
            self.share[keep],
            self.ranks[keep],
        )

    def first(self, tables: int) -> Ints:
        """[T + 1] the choices of table t are first[t] .. first[t + 1] - 1."""
        return np.searchsorted(self.table, np.arange(tables + 1))

    def __len__(self) -> int:
        return len(self.kind)
