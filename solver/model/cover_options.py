"""The options of a question's cover: each sharding type and kernel priced for every table, in pieces of every width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from emplace.placement.choice import kernel_refusal, priced_as, tiers_of
from emplace.placement.id_order import BY_FREQUENCY
from emplace.placement.layout import BESIDE_SERVERS, COLUMN_MULTIPLE
from emplace.placement.model import ComputeKernel, DataType, ShardingType, Tier
from emplace.placement.plan import Question
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import PLACED_STAGES
from emplace.placement.topology import Rank, Topology
from emplace.placement.workload import ROW_SPLIT
from emplace.solver.model.block_prices import least_of, mean_of, sum_where, with_blocks
from emplace.solver.model.cache_points import INTERVALS, cache_edges, interval_points, is_linear, mixed_points
from emplace.solver.model.costing import ShardPricer
from emplace.solver.model.piece_bands import (
    PieceBand,
    PricedWidths,
    bands_by_number,
    bands_by_width,
    bands_of_each_number,
)
from emplace.solver.model.problem import Bools, Floats, Ints, Scope

_ON_DEVICES = (*BESIDE_SERVERS, ShardingType.TABLE_COLUMN_WISE)
_IN_PIECES = (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD)
_ON_ALL = (ShardingType.ROW_WISE, ShardingType.DATA_PARALLEL)
IN_OWN_PIECES = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE)
"""Types whose every piece is on a device that was chosen for it."""
HOLDERS, OTHERS = 0, 1
"""Kinds of trainers where those that hold a table are a kind apart."""
_MOST_SHARDS = 50_000
"""Shards that caches are priced for at once."""


@dataclass(frozen=True)
class CoverBlock:
    """n options of one sharding type, as in solver/model/cover.py."""

    sharding_type: ShardingType
    kernel: ComputeKernel
    scope: Scope
    """What a unit is on."""
    on_server: bool
    kind: int
    """The kind of device; -1 where options load all devices of a node or of the job."""
    table: Ints
    """[n]"""
    count: Floats
    share: Floats
    pieces: Ints
    mean_us: Floats
    """[n, G, K]"""
    least_us: Floats
    """[n, G, K]"""
    largest_us: Floats
    """[n, K]"""
    shortest_us: Floats
    """[n, K]"""
    hbm_bytes: Ints
    """[n, G]"""
    ddr_bytes: Ints
    least_hbm_bytes: Ints
    least_ddr_bytes: Ints

    def on_others(self) -> CoverBlock:
        """The same options on the other trainers, from those on holders."""
        swapped = [OTHERS, HOLDERS, *range(2, self.mean_us.shape[1])]
        loads = ("mean_us", "least_us", "hbm_bytes", "ddr_bytes", "least_hbm_bytes", "least_ddr_bytes")
        return replace(self, kind=OTHERS, **{name: getattr(self, name)[:, swapped] for name in loads})


class CoverPricer:
    """Prices the options of a cover on one topology.

    Where a table is `held`, all trainers are alike, and kinds of them are its holders and the others: it has only options of pieces of its
    own, on holders, one for each number of them that leaves others. Which trainers these are is not known.
    """

    def __init__(
        self,
        question: Question,
        topology: Topology,
        tiers: frozenset[Tier],
        types: frozenset[ShardingType],
        kinds: list[Rank],
        device_kind: Ints,
        pricer: ShardPricer,
        held: int | None = None,
    ) -> None:
        self._question, self._topology, self._tiers, self._kinds, self._pricer = question, topology, tiers, kinds, pricer
        self._device_kind, self._held = device_kind, held
        self._is_trainer = np.array([not rank.is_server for rank in kinds])
        beside = BESIDE_SERVERS if topology.servers else tuple(ShardingType)
        self._types = [kind for kind in ShardingType if kind in types and kind in beside]
        tables = question.model.tables
        together = {name for group in question.model.together or () for name in group}
        self._together = np.array([table.name in together for table in tables])
        self._data_type = {
            each: np.array([table.data_type is each for table in tables]) for each in dict.fromkeys(t.data_type for t in tables)
        }
        has_cuda = question.host.has_cuda
        self._is_mixed = has_cuda and all(is_linear(question.cost_model, rank.device) for rank in kinds)
        points = mixed_points if self._is_mixed else interval_points
        self._points = np.array([points(table.access, table.num_embeddings) for table in tables]) if has_cuda else np.empty((0, 0, 3))
        self._by_frequency = np.array([table.ids == BY_FREQUENCY for table in tables])

    def with_holders(self, table: int, device_kind: Ints) -> CoverPricer:
        """With the holders of a table apart, for kinds of device ([D]) of which there is one more."""
        kinds = [self._kinds[HOLDERS], *self._kinds]
        return CoverPricer(self._question, self._topology, self._tiers, frozenset(self._types), kinds, device_kind, self._pricer, table)

    def blocks(self, free: Bools) -> Iterator[CoverBlock]:
        """All options of the tables in `free` ([T])."""
        for kind in self._types:
            kernels = [ComputeKernel.DENSE] if kind is ShardingType.DATA_PARALLEL else [ComputeKernel.FUSED, ComputeKernel.FUSED_UVM]
            for data_type, of_type in self._data_type.items():
                for kernel in kernels:
                    yield from self._of(kind, kernel, None, data_type, free & of_type)
                if kind is not ShardingType.DATA_PARALLEL:
                    points = self._points_at_once(int((free & of_type).sum()))
                    caching = (self._of(kind, ComputeKernel.FUSED_UVM_CACHING, some, data_type, free & of_type) for some in points)
                    for alike in zip(*map(list, caching), strict=True):
                        yield from _beside_neighbours(alike, self._points.shape[1]) if self._is_mixed else alike

    def _points_at_once(self, tables: int) -> list[Ints]:
        """The points of caches, in groups that are priced together: a call takes as long for many shards as for few, and memory for each."""
        points, shards = self._points.shape[1], tables * int(self._pricer.tables.columns.max()) // COLUMN_MULTIPLE
        groups = min(points, -(-points * shards // _MOST_SHARDS)) if points else 0
        return np.array_split(np.arange(points), groups) if groups else []

    def _of(self, kind: ShardingType, kernel: ComputeKernel, points: Ints | None, data_type: DataType, free: Bools) -> Iterator[CoverBlock]:
        """With caches at each of the points: one point after the other, each with all tables."""
        running = [self._runs(kernel, rank, data_type) for rank in self._kinds]
        if kind in _ON_DEVICES:
            places = [
                [number]
                for number, runs in enumerate(running)
                if runs and not (self._kinds[number].is_server and kind not in BESIDE_SERVERS)
            ]
        else:
            trainers = [number for number, rank in enumerate(self._kinds) if not rank.is_server]
            places = [trainers] if all(running[number] for number in trainers) else []
        for place in places:
            table = np.flatnonzero(free & self._open(kind, kernel, [self._kinds[number] for number in place]))
            beside = [other for other in places if self._is_trainer[other[0]] == self._is_trainer[place[0]]]
            if self._held is None:
                for some in self._cut_alike(kind, table):
                    yield from self._blocks(kind, kernel, points, data_type, some, place, is_alone=len(beside) == 1)
            elif place != [OTHERS]:
                for some in self._cut_alike(kind, table[table != self._held]):
                    for block in self._blocks(kind, kernel, points, data_type, some, place, is_alone=len(beside) == 1):
                        yield from (block, block.on_others()) if place == [HOLDERS] else (block,)
                if place == [HOLDERS] and kind in IN_OWN_PIECES and self._held in table:
                    yield from self._blocks(kind, kernel, points, data_type, np.array([self._held]), place, is_alone=True)

    def _cut_alike(self, kind: ShardingType, table: Ints) -> Iterator[Ints]:
        """Those of the tables whose pieces may have any width, and those whose pieces have one."""
        is_cut = self._pieces(kind, table) > 0
        return (some for some in (table[~is_cut], table[is_cut]) if len(some))

    def _pieces(self, kind: ShardingType, table: Ints) -> Ints:
        """[n] in how many pieces of one width each table is; 0 where pieces may have any."""
        return self._pricer.tables.pieces[table] if kind is ShardingType.COLUMN_WISE else np.zeros_like(table)

    def _runs(self, kernel: ComputeKernel, rank: Rank, data_type: DataType) -> bool:
        cost = self._question.cost_model
        return (
            kernel_refusal(kernel, rank, self._question.model.optimizer, data_type) is None
            and all(cost.kernel(rank.device, part) for part in priced_as(kernel))
            and tiers_of(kernel, rank) <= self._tiers
        )

    def _open(self, kind: ShardingType, kernel: ComputeKernel, ranks: list[Rank]) -> Bools:
        """[T] the tables whose constraints allow it."""
        used = frozenset(tier for rank in ranks for tier in tiers_of(kernel, rank))
        tables = self._pricer.tables
        allowed = [
            (each.sharding_types is None or kind in each.sharding_types)
            and (each.compute_kernels is None or kernel in each.compute_kernels)
            and (each.tiers is None or used <= frozenset(each.tiers))
            for each in tables.constraints
        ]
        has_kernel = tables.trains_dense | (kernel is not ComputeKernel.DENSE)
        return np.asarray(np.array(allowed)[tables.constraint] & has_kernel & (~self._together | (kind is ShardingType.TABLE_WISE)))

    def _blocks(
        self,
        kind: ShardingType,
        kernel: ComputeKernel,
        points: Ints | None,
        data_type: DataType,
        table: Ints,
        place: list[int],
        *,
        is_alone: bool,
    ) -> Iterator[CoverBlock]:
        """Blocks of tables that are `_cut_alike`. `is_alone`: pieces can't lie on other kinds of device as well."""
        point = None if points is None else np.repeat(points, len(table))
        table = table if points is None else np.tile(table, len(points))
        columns, pieces = self._pricer.tables.columns[table], self._pieces(kind, table)
        is_cut = bool(pieces.any())
        widths = columns[:, None]
        if is_cut:
            widths = widths // pieces[:, None]
        elif kind in _IN_PIECES:
            widths = COLUMN_MULTIPLE * np.arange(1, columns.max() // COLUMN_MULTIPLE + 1)[None, :]
        sharding = self._sharding(kind, kernel, point, data_type, table)
        means, leasts, mosts = zip(*(self._on_kind(sharding, point, number, table, widths) for number in place), strict=True)
        if kind in _IN_PIECES:
            least_us = self._widest_us(sharding, point, table, place)
            leasts, mosts = (
                tuple(replace(each, time_us=np.maximum(each.time_us, least_us[:, None])) for each in part) for part in (leasts, mosts)
            )
        by_number = is_alone and kind in _IN_PIECES
        for band in self._bands(table, columns) if by_number and not is_cut else bands_by_width(columns, widths):
            if by_number and is_cut:
                band = replace(band, share=np.ones(len(band.some)), pieces=pieces[band.some])
            widest = [[band.widest(each.of(band.some)) for each in part] for part in (leasts, mosts)]
            taken = [band.together(each.of(band.some)) for each in means], *widest
            share = np.zeros(len(band.some)) if point is not None and self._is_mixed else band.share
            yield self._block(kind, kernel, place, table[band.some], replace(band, share=share), *taken)

    def _bands(self, table: Ints, columns: Ints) -> Iterator[PieceBand]:
        """By the number of pieces."""
        is_held = self._held is not None and self._held in table
        return bands_of_each_number(columns, len(self._topology.trainers) - 1) if is_held else bands_by_number(columns)

    def _block(
        self,
        kind: ShardingType,
        kernel: ComputeKernel,
        place: list[int],
        table: Ints,
        band: PieceBand,
        means: list[PricedWidths],
        leasts: list[PricedWidths],
        mosts: list[PricedWidths],
    ) -> CoverBlock:
        shape = len(table), len(self._kinds)
        mean_us, least_us = np.zeros((*shape, len(PLACED_STAGES))), np.zeros((*shape, len(PLACED_STAGES)))
        hbm, ddr, least_hbm, least_ddr = (np.zeros(shape, np.int64) for _ in range(4))
        for number, mean, least in zip(place, means, leasts, strict=True):
            mean_us[:, number], least_us[:, number] = mean.time_us, least.time_us
            hbm[:, number], ddr[:, number] = np.floor(mean.hbm_bytes), np.floor(mean.ddr_bytes)
            least_hbm[:, number], least_ddr[:, number] = least.hbm_bytes, least.ddr_bytes
            mean_us[:, self._is_trainer] += mean.served_us[:, None]
            least_us[:, self._is_trainer] += least.served_us[:, None]
        on_device = place[0] if kind in _ON_DEVICES else -1
        on_server, scope = not self._is_trainer[place[0]], self._scope(kind)
        shape_of = kind, kernel, scope, on_server, on_device, table, band.count, band.share, band.pieces
        largest_us = np.max([each.time_us for each in mosts], axis=0)
        return CoverBlock(*shape_of, mean_us, least_us, largest_us, largest_us, hbm, ddr, least_hbm, least_ddr)

    def _scope(self, kind: ShardingType) -> Scope:
        """What a unit is on. Where there is one node, what is on a node is on all devices."""
        if kind in _ON_DEVICES:
            return Scope.DEVICE
        return Scope.WORLD if kind in _ON_ALL or self._topology.trainer_nodes == 1 else Scope.NODE

    def _sharding(self, kind: ShardingType, kernel: ComputeKernel, point: Ints | None, data_type: DataType, table: Ints) -> TableSharding:
        """`point` [n]: that of each table's cache."""
        sharding = TableSharding(kind, kernel, data_type, self._question.model.optimizer)
        if point is None:
            return sharding
        factor, hit, miss = (self._points[table, point, column][:, None] for column in range(3))
        return TableSharding(kind, kernel, data_type, self._question.model.optimizer, factor, hit, miss)

    def _on_kind(
        self, sharding: TableSharding, point: Ints | None, number: int, table: Ints, widths: Ints
    ) -> tuple[PricedWidths, PricedWidths, PricedWidths]:
        """The mean of the blocks that devices of a kind hold, the least of them, and the time of the one with most lookups of all, which is none
        where no such device holds it; the least as mean where the devices are not known."""
        rank, rows = self._kinds[number], self._pricer.tables.rows[table]
        widths = np.broadcast_to(widths, (len(table), widths.shape[1]))
        if sharding.sharding_type not in ROW_SPLIT:
            [whole] = self._priced(sharding, point, rank, table, [rows], widths)
            return whole, whole, whole
        place = self._places(sharding.sharding_type, number)
        full = -(-rows // self._blocks_of(sharding.sharding_type))
        held = np.clip(rows[:, None] - full[:, None] * place, 0, full[:, None])
        whole_share, empty_share = (held == full[:, None]).mean(axis=1), (held == 0).mean(axis=1)
        rest = np.where((held > 0) & (held < full[:, None]), held, 0).max(axis=1)
        shares = [whole_share, empty_share, 1 - whole_share - empty_share]
        parts = self._priced(sharding, point, rank, table, [full, np.zeros_like(full), rest], widths)
        mean, least = mean_of(parts, shares), least_of(parts, shares)
        # One block for all caches, so that a mix of two is not taken for the heaviest block of each. Of blocks that are alike, the first.
        most = parts[0] if 0 in place else replace(parts[0], time_us=np.zeros_like(parts[0].time_us))
        if len(uneven := np.flatnonzero(self._pricer.is_uneven[table])):
            at = None if point is None else point[uneven]
            places = np.unique(place)  # nodes are alike
            each = self._blocks_on_kind(sharding, at, rank, table[uneven], widths[uneven], places)
            is_heaviest = places == self._pricer.heaviest_block(table[uneven], self._blocks_of(sharding.sharding_type))[:, None]
            mean, least = with_blocks(mean, uneven, each, np.mean), with_blocks(least, uneven, each, np.min)
            most = with_blocks(most, uneven, each, partial(sum_where, is_heaviest))
        return (mean if self._held is None else least), least, most

    def _blocks_on_kind(
        self, sharding: TableSharding, point: Ints | None, rank: Rank, table: Ints, widths: Ints, place: Ints
    ) -> tuple[Floats, ...]:
        """Parts of PricedWidths, [n, places, W, ...], of the blocks of tables at some places."""
        count = len(place)
        repeated, rows = np.repeat(table, count), np.repeat(self._pricer.tables.rows[table], count)
        full = -(-rows // self._blocks_of(sharding.sharding_type))
        first = np.minimum(np.tile(place, len(table)) * full, rows)
        shape = ShardShape(np.minimum(full, rows - first)[:, None], np.repeat(widths, count, axis=0), first[:, None])
        if point is not None:
            point = np.repeat(point, count)
            sharding = self._sharding(sharding.sharding_type, sharding.kernel, point, sharding.data_type, repeated)
            sharding = self._cached(sharding, point, repeated, shape)
        price = self._pricer.shards_of(sharding, rank, repeated, shape)
        parts = (price.time_us, price.hbm_bytes.astype(np.float64), price.ddr_bytes.astype(np.float64), price.served_us)
        return tuple(part.reshape(len(table), count, *part.shape[1:]) for part in parts)

    def _cached(self, sharding: TableSharding, point: Ints, table: Ints, shape: ShardShape) -> TableSharding:
        """With what caches take of blocks of rows [n]. Where ids lie by frequency, each block has hits of its own: no mix of caches is
        one for all blocks, so the point is an interval of load factors, with its smallest cache and its fewest hits and misses."""
        factor, hit, miss = (np.array(each) for each in (sharding.load_factor, sharding.hit_rate, sharding.miss_rate))
        own = self._by_frequency[table]
        interval, tables = np.minimum(point[own], INTERVALS - 1), [self._question.model.tables[each] for each in table[own].tolist()]
        every = [cache_edges(each.access, each.num_embeddings)[0][at : at + 2] for each, at in zip(tables, interval.tolist(), strict=True)]
        edges = np.array(every).reshape(-1, 2)
        part = ShardShape(shape.rows[own], shape.columns[own], shape.first_row[own])
        hits = [self._pricer.block_hits(table[own], edges[:, side, None], edges[:, side, None], part) for side in range(2)]
        factor[own], hit[own], miss[own] = edges[:, :1], np.where(interval[:, None] > 0, hits[0], 0.0), 1.0 - hits[1]
        return replace(sharding, load_factor=factor, hit_rate=hit, miss_rate=miss)

    def _widest_us(self, sharding: TableSharding, point: Ints | None, table: Ints, place: list[int]) -> Floats:
        """[n, K] what the widest piece of a table takes at least: pieces lie apart, so they are no more than there are devices or nodes."""
        kind, topology, columns = sharding.sharding_type, self._topology, self._pricer.tables.columns[table]
        on_server = self._kinds[place[0]].is_server
        most = {
            ShardingType.GRID_SHARD: topology.trainer_nodes,
            ShardingType.TABLE_COLUMN_WISE: topology.trainers_per_node,
            ShardingType.COLUMN_WISE: len(topology.servers if on_server else topology.trainers),
        }[kind]
        widest = COLUMN_MULTIPLE * -(-columns[:, None] // (COLUMN_MULTIPLE * most))
        beside = [number for number, rank in enumerate(self._kinds) if rank.is_server == on_server]
        runs = [number for number in beside if self._question.cost_model.kernel(self._kinds[number].device, priced_as(sharding.kernel)[-1])]
        return np.asarray(np.min([self._on_kind(sharding, point, number, table, widest)[1].time_us[:, 0] for number in runs], axis=0))

    def _places(self, kind: ShardingType, number: int) -> Ints:
        """[ranks of the kind] which block each holds, any where ranks are not known; nodes are alike."""
        trainers = np.flatnonzero((self._device_kind[: len(self._topology.trainers)] == number) | (self._held is not None))
        return np.asarray(trainers if kind is ShardingType.ROW_WISE else trainers % self._topology.trainers_per_node)

    def _blocks_of(self, kind: ShardingType) -> int:
        return len(self._topology.trainers) if kind is ShardingType.ROW_WISE else self._topology.trainers_per_node

    def _priced(
        self, sharding: TableSharding, point: Ints | None, rank: Rank, table: Ints, rows: list[Ints], widths: Ints
    ) -> list[PricedWidths]:
        """Shards of so many rows of the tables ([n]), of each number in turn."""
        count = len(rows)
        if count > 1:
            table, widths, point = np.tile(table, count), np.tile(widths, (count, 1)), None if point is None else np.tile(point, count)
            sharding = self._sharding(sharding.sharding_type, sharding.kernel, point, sharding.data_type, table)
        price = self._pricer.shards_of(sharding, rank, table, ShardShape(np.concatenate(rows)[:, None], widths))
        all_rows = PricedWidths(price.time_us, price.hbm_bytes.astype(np.float64), price.ddr_bytes.astype(np.float64), price.served_us)
        return [all_rows.of(some) for some in np.split(np.arange(len(table)), count)]


def _beside_neighbours(blocks: tuple[CoverBlock, ...], points: int) -> Iterator[CoverBlock]:
    """Caches, one point after the other, each with the least time of a point and those beside it: a cache is a mix of two neighbours."""
    of_all = np.concatenate([block.largest_us for block in blocks])
    largest_us = of_all.reshape(points, -1, *of_all.shape[1:])
    shortest_us = largest_us.copy()
    shortest_us[1:] = np.minimum(shortest_us[1:], largest_us[:-1])
    shortest_us[:-1] = np.minimum(shortest_us[:-1], largest_us[1:])
    ends = np.cumsum([len(block.table) for block in blocks])
    for block, own in zip(blocks, np.split(shortest_us.reshape(of_all.shape), ends[:-1]), strict=True):
        yield replace(block, shortest_us=own)
