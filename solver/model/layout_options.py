"""The options of the program: each layout priced for every table that it is open to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.placement.model import DataType, ModelSpec, ShardingType
from emplace.placement.sharding import ShardShape
from emplace.placement.topology import Rank, Topology
from emplace.solver.model.colocation import OptionArrays
from emplace.solver.model.costing import ShardPricer, ShardPrices
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.indexing import Number
from emplace.solver.model.layouts import Layout, open_to, piece_widths
from emplace.solver.model.problem import Bools, Floats, Ints, Scope


class LargestRoom:
    """The most room that any one target has, and so which options fit at least one target on their own."""

    def __init__(self, kinds: list[Rank], device_kind: Ints, topology: Topology, hbm_capacity: Ints, ddr_capacity: Ints) -> None:
        nodes = np.array([rank.node for rank in topology.ranks])
        self._hbm = np.array([hbm_capacity[device_kind == kind].max() for kind in range(len(kinds))])
        self._ddr = np.array([ddr_capacity[nodes[device_kind == kind]].max() for kind in range(len(kinds))])
        on_first_node = (nodes == 0) & np.array([not rank.is_server for rank in topology.ranks])
        self._per_node = np.bincount(device_kind[on_first_node], minlength=len(kinds))
        self._node_ddr = ddr_capacity[: topology.trainer_nodes].max()

    def fits(self, layout: Layout, hbm_bytes: Ints, ddr_bytes: Ints) -> Bools:
        """[n] whether options that take these bytes ([n, pieces, G]) fit somewhere."""
        fits = (hbm_bytes <= self._hbm).all(axis=(1, 2))
        if layout.scope is Scope.DEVICE:
            return np.asarray(fits & (ddr_bytes <= self._ddr).all(axis=(1, 2)))
        return np.asarray(fits & ((ddr_bytes @ self._per_node) <= self._node_ddr).all(axis=1))


@dataclass(frozen=True)
class OptionBlock:
    """The options of one layout and data type, `pieces` units each."""

    layout: int
    table: Ints
    """[n]"""
    time_us: Floats
    """[n, pieces, G, K]"""
    hbm_bytes: Ints
    """[n, pieces, G]"""
    ddr_bytes: Ints
    """[n, pieces, G] of system memory."""
    slack_bytes: Ints
    """[n] the most that a full block takes beyond the shortest one."""

    def where(self, keep: Bools) -> OptionBlock:
        """The options in `keep` ([n]) only."""
        return OptionBlock(
            self.layout, self.table[keep], self.time_us[keep], self.hbm_bytes[keep], self.ddr_bytes[keep], self.slack_bytes[keep]
        )


class LayoutPricer:
    """Prices layouts, one after the other, for every table that they are open to."""

    def __init__(
        self, pricer: ShardPricer, model: ModelSpec, kinds: list[Rank], room: LargestRoom | None, fixed: Fixed, *, mean_blocks: bool
    ) -> None:
        self._pricer, self._kinds, self._room, self._mean_blocks = pricer, kinds, room, mean_blocks
        grouped = {name for group in model.together or () for name in group}
        self._free = np.array([index not in fixed.placements and table.constraints.pin is None for index, table in enumerate(model.tables)])
        self._single = np.array([table.name not in grouped for table in model.tables])
        parted = {name for group in model.apart or () for name in group}
        self._alone = np.array([table.name not in parted for table in model.tables])
        types = [table.data_type for table in model.tables]
        self._of_type = {data_type: np.array([each is data_type for each in types]) for data_type in dict.fromkeys(types)}

    def price(self, index: int, layout: Layout) -> list[OptionBlock]:
        """The options of a layout that fit somewhere, one block per data type."""
        is_open = open_to(layout, self._pricer.tables) & self._free
        if layout.sharding_type is not ShardingType.TABLE_WISE:
            is_open &= self._single
        if layout.scope is Scope.WORLD:
            # On every trainer there is no room for a table that must be apart.
            is_open &= self._alone
        blocks = []
        for data_type, of_type in self._of_type.items():
            table = np.flatnonzero(is_open & of_type)
            if len(table):
                block = self._block(index, layout, data_type, table)
                fits = None if self._room is None else self._room.fits(layout, block.hbm_bytes, block.ddr_bytes)
                blocks.append(block if fits is None else block.where(fits))
        return blocks

    def _block(self, index: int, layout: Layout, data_type: DataType, table: Ints) -> OptionBlock:
        """All options of a layout for tables [n] of one data type, whether they fit anywhere or not."""
        columns = piece_widths(self._pricer.tables.columns[table], layout.pieces) // layout.column_blocks
        shape = (*columns.shape, len(self._kinds))
        time_us = np.zeros((*shape, len(self._pricer.stages)))
        hbm_bytes, ddr_bytes, slack = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for kind, rank in enumerate(self._kinds):
            if rank.is_server != layout.on_server or layout.device not in (None, rank.device):
                continue
            charged, slack[:, :, kind] = self._charged(layout, rank, data_type, table, columns)
            time_us[:, :, kind] = charged.time_us
            time_us[:, :, [not each.is_server for each in self._kinds]] += charged.served_us[:, :, None]
            hbm_bytes[:, :, kind], ddr_bytes[:, :, kind] = charged.hbm_bytes, charged.ddr_bytes
        return OptionBlock(index, table, time_us, hbm_bytes, ddr_bytes, slack.sum(axis=1).max(axis=1))

    def _charged(self, layout: Layout, rank: Rank, data_type: DataType, table: Ints, columns: Ints) -> tuple[ShardPrices, Ints]:
        """([n, pieces] what every device of a target is charged, [n, pieces] the most bytes that one takes beyond that).

        That is the shortest block where blocks are alike. Where some are hot it is the heaviest, or takes the time of the mean: a plan is
        read from it. Where options are not dropped it is the lightest, as sums of them are to hold for every placement.
        """
        rows = self._pricer.tables.rows[table][:, None]
        full = -(-rows // layout.row_blocks)
        shortest = ShardShape(rows - full * (layout.row_blocks - 1), columns)
        charged = self._pricer.shards(layout, rank, data_type, table, shortest)
        if layout.row_blocks == 1:
            return charged, np.zeros_like(columns)
        longest = self._pricer.shards(layout, rank, data_type, table, ShardShape(full, columns))
        slack = np.maximum(longest.hbm_bytes - charged.hbm_bytes, longest.ddr_bytes - charged.ddr_bytes)
        uneven = np.flatnonzero(self._pricer.is_uneven[table])
        if not len(uneven):
            return charged, slack
        blocks = self._pricer.blocks(layout, rank, data_type, table[uneven], columns[uneven])
        of_blocks = ShardPrices.mean if self._mean_blocks else ShardPrices.most
        slack[uneven] = 0
        return charged.replaced(uneven, ShardPrices.least(blocks) if self._room is None else of_blocks(blocks)), slack


class JoinedOptions:
    """Blocks laid side by side, then ordered by table and layout."""

    def __init__(self, blocks: list[OptionBlock], num_kinds: int, stages: int) -> None:
        table = np.concatenate([np.empty(0, np.int64), *(block.table for block in blocks)])
        layout = np.concatenate([np.empty(0, np.int64), *(np.full(len(block.table), block.layout) for block in blocks)])
        units = np.concatenate([np.empty(0, np.int64), *(np.full(len(block.table), block.hbm_bytes.shape[1]) for block in blocks)])
        order = np.lexsort((layout, table))
        first_unit = np.append(0, np.cumsum(units[order]))
        starts = (np.cumsum(units) - units)[order]
        gather = np.repeat(starts - first_unit[:-1], units[order]) + np.arange(first_unit[-1])
        times = [np.empty((0, num_kinds, stages)), *(_by_unit(block.time_us) for block in blocks)]
        none = np.empty((0, num_kinds), np.int64)
        self.arrays = OptionArrays(
            table=table[order],
            layout=layout[order],
            first_unit=first_unit,
            time_us=np.concatenate(times)[gather],
            hbm_bytes=np.concatenate([none, *(_by_unit(block.hbm_bytes) for block in blocks)])[gather],
            ddr_bytes=np.concatenate([none, *(_by_unit(block.ddr_bytes) for block in blocks)])[gather],
        )
        self.slack_bytes = self._slack(blocks)

    def _slack(self, blocks: list[OptionBlock]) -> int:
        """The sum over tables of their largest slack, because every table takes one option."""
        largest = np.zeros(int(self.arrays.table.max(initial=-1)) + 1, np.int64)
        for block in blocks:
            np.maximum.at(largest, block.table, block.slack_bytes)
        return int(largest.sum())


def _by_unit(values: NDArray[Number]) -> NDArray[Number]:
    """[n * pieces, ...] from [n, pieces, ...]."""
    return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
