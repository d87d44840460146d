"""The choices of tables: every placement that the audit accepts is one of them, or a mix of some with loads that are no more."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emplace.placement.certificate import HasAtMost, HasWay
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.proof.classes import Bools, Floats, Ints, RankClasses
from emplace.placement.stages import PLACED_STAGES

TYPES, KERNELS = tuple(ShardingType), tuple(ComputeKernel)


@dataclass(frozen=True)
class Choices:
    """n choices, table after table, on G classes of R ranks and P groups of nodes."""

    table: Ints
    """[n] rising: the place of the table in the model."""
    kind: Ints
    """[n] place of the sharding type in TYPES."""
    kernel: Ints
    """[n] place of the compute kernel in KERNELS."""
    on_server: Bools
    """[n]"""
    pieces: Ints
    """[n] how many pieces the columns are in; 0 where choices of several widths are mixed."""
    whole_on: Ints
    """[n] the class of ranks on one of which the table is whole; -1 where it is not, or is pinned."""
    time_us: Floats
    """[n, G, K] on all ranks of a class together."""
    hbm: Floats
    """[n, G] bytes, likewise."""
    ddr: Floats
    """[n, P] bytes on all nodes of a group together."""
    own_us: Floats
    """[n, K] the largest shard of a placement takes at least so much, on average over the choices that it is a mix of."""
    everywhere_us: Floats
    """[n, K] every rank has at least so much of a placement, on average over the choices that it is a mix of."""
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
            table=np.zeros(count, np.int64),
            kind=np.zeros(count, np.int64),
            kernel=np.zeros(count, np.int64),
            on_server=np.zeros(count, dtype=bool),
            pieces=np.zeros(count, np.int64),
            whole_on=np.full(count, -1),
            time_us=np.zeros((count, number, stages)),
            hbm=np.zeros((count, number)),
            ddr=np.zeros((count, classes.groups)),
            own_us=np.zeros((count, stages)),
            everywhere_us=np.zeros((count, stages)),
            shortest_us=np.zeros((count, stages)),
            share=np.ones(count),
            ranks=np.zeros((count, len(classes.of_rank) if classes.are_ranks else 0), dtype=bool),
        )

    @classmethod
    def joined(cls, parts: list[Choices]) -> Choices:
        """All choices of the parts, of which there is at least one."""
        return cls(*(np.concatenate(columns) for columns in zip(*(part._columns() for part in parts), strict=True)))

    def where(self, keep: Bools | Ints | slice) -> Choices:
        """Those in `keep`: a mask [n], or indices."""
        return Choices(*(column[keep] for column in self._columns()))

    def _columns(self) -> list[NDArray[Any]]:
        return [getattr(self, field.name) for field in fields(self)]

    def are(self, says: HasWay | HasAtMost) -> Bools:
        """[n] whether this is so of the choice, of whichever table."""
        if isinstance(says, HasAtMost):
            return self.pieces <= says.most_pieces
        is_kind = self.kind == TYPES.index(says.sharding_type)
        return np.asarray(is_kind & (self.kernel == KERNELS.index(says.compute_kernel)) & (self.on_server == says.on_servers))

    def first(self, tables: int) -> Ints:
        """[T + 1] the choices of table t are first[t] .. first[t + 1] - 1."""
        return np.searchsorted(self.table, np.arange(tables + 1))

    def __len__(self) -> int:
        return len(self.kind)
