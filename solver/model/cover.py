"""What bounds every plan of a question that is too large to enumerate: a problem that no plan is read from.

On one kind of device an option is a number of pieces, with the least that so many take together. On several kinds options are mixed: a
table that is cut into pieces of widths w1, w2, ... of C columns takes the share w / C of the option of each of its pieces, where the
option of a width and a kind is as many such pieces as C columns make, C / w. Its loads are then exactly those of the pieces, whatever a
piece costs. Cache load factors are mixed likewise (cache_points). Rows are split into the blocks that ranks have: an option counts their
mean in sums over devices, and the least of them on a single one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from emplace.placement.model import ComputeKernel, ShardingType
from emplace.solver.model.problem import Bools, Floats, Ints, Problem


class Way(NamedTuple):
    """How a table is placed, whatever lies where and in how many pieces: a table has one way."""

    sharding_type: ShardingType
    kernel: ComputeKernel
    on_server: bool


@dataclass(frozen=True, kw_only=True)
class Cover(Problem):
    """One unit to an option, which stands for `count` of them."""

    count: Floats
    """[O]"""
    share: Floats
    """[O] the least share of its table that is of an option where any of it is; 0 where that may be as little as nothing."""
    least_us: Floats
    """[O, G, K] the least that a device carries of the option where it carries any."""
    largest_us: Floats
    """[O, K] the device that carries most of the option carries at least so much."""
    shortest_us: Floats
    """[O, K] likewise of any placement that the option has a share in."""
    least_hbm_bytes: Ints
    """[O, G]"""
    least_ddr_bytes: Ints
    """[O, G]"""
    sharding_type: Ints
    """[O] place in ShardingType; -1 of what fixed tables load."""
    way: Ints
    """[O] index into `ways`; -1 of what fixed tables load."""
    ways: tuple[Way, ...]
    pieces: Ints
    """[O] how many pieces a table is in that takes the option, at least: options of different numbers are never mixed in one way. 1 where
    they may be."""

    def types_of(self, options: Bools) -> frozenset[ShardingType]:
        """The sharding types of the options in `options` ([O])."""
        every = tuple(ShardingType)
        return frozenset(every[place] for place in np.unique(self.sharding_type[options]).tolist() if place >= 0)

    def with_cover_options(self, kept: Bools) -> Cover:
        """With the options of `kept` ([O]) only."""
        return replace(
            self,
            option_table=self.option_table[kept],
            option_scope=self.option_scope[kept],
            option_kind=self.option_kind[kept],
            option_first_unit=np.arange(int(kept.sum()) + 1),
            unit_time_us=self.unit_time_us[kept],
            unit_hbm_bytes=self.unit_hbm_bytes[kept],
            unit_ddr_bytes=self.unit_ddr_bytes[kept],
            count=self.count[kept],
            share=self.share[kept],
            least_us=self.least_us[kept],
            largest_us=self.largest_us[kept],
            shortest_us=self.shortest_us[kept],
            least_hbm_bytes=self.least_hbm_bytes[kept],
            least_ddr_bytes=self.least_ddr_bytes[kept],
            sharding_type=self.sharding_type[kept],
            way=self.way[kept],
            pieces=self.pieces[kept],
        )
