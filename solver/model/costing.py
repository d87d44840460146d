"""What shards cost: the time that they add to each stage and the bytes that they take, over many tables at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from emplace.placement.host import DeviceType
from emplace.placement.hot_rows import hottest_place
from emplace.placement.id_order import RowShare
from emplace.placement.memory import rank_bytes, shard_bytes
from emplace.placement.model import DataType
from emplace.placement.own_peaks import beyond_shards_bytes
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import PLACED_STAGES, Stage, served_stages_us, shard_stages_us
from emplace.placement.topology import Rank, Topology
from emplace.placement.workload import ROW_SPLIT, TableLoad, model_loads, shard_workload
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.layouts import Layout, table_columns
from emplace.solver.model.problem import Bools, Floats, Ints


@dataclass(frozen=True)
class ShardPrices:
    """What shards [n, pieces] take on one kind of device."""

    time_us: Floats
    """[n, pieces, K]"""
    hbm_bytes: Ints
    """[n, pieces]"""
    ddr_bytes: Ints
    served_us: Floats
    """[n, pieces, K] what they put on every trainer, where they are on a server."""

    @classmethod
    def least(cls, each: Sequence[ShardPrices]) -> ShardPrices:
        """The least of several in each stage and each kind of memory."""
        return cls(*(np.min(alike, axis=0) for alike in zip(*map(_parts, each), strict=True)))

    @classmethod
    def most(cls, each: Sequence[ShardPrices]) -> ShardPrices:
        """Likewise, the most."""
        return cls(*(np.max(alike, axis=0) for alike in zip(*map(_parts, each), strict=True)))

    @classmethod
    def mean(cls, each: Sequence[ShardPrices]) -> ShardPrices:
        """The mean of several in each stage, and the most in each kind of memory."""
        time_us, served_us = (np.mean(alike, axis=0) for alike in ([part.time_us for part in each], [part.served_us for part in each]))
        return replace(cls.most(each), time_us=time_us, served_us=served_us)

    def replaced(self, where: Ints, by: ShardPrices) -> ShardPrices:
        """With those of tables in `where` as in `by`."""
        parts = [np.array(part) for part in _parts(self)]
        for part, other in zip(parts, _parts(by), strict=True):
            part[where] = other
        return ShardPrices(*parts)


def _parts(prices: ShardPrices) -> tuple[Any, ...]:
    return prices.time_us, prices.hbm_bytes, prices.ddr_bytes, prices.served_us


@dataclass(frozen=True)
class RankLoads:
    """What tables put on every rank."""

    time_us: Floats
    """[ranks, K]"""
    hbm_bytes: Ints
    """[ranks]"""
    ddr_bytes: Ints


class ShardPricer:
    """Prices shards, over many tables of one data type at once."""

    def __init__(self, question: Question, topology: Topology, stages: tuple[Stage, ...] = PLACED_STAGES) -> None:
        self._question, self._topology = question, topology
        self.stages = stages
        """[K] those that times are of; none where only bytes are wanted."""
        loads = model_loads(question.model, topology, question.options.objective)
        self._table_loads = loads
        self._loads = [np.array([getattr(load, field.name) for load in loads]) for field in fields(TableLoad)]
        self.is_uneven = np.array([load.curves is not None for load in loads])
        """[T] whether blocks of a table's rows take more and less than their share."""
        kinds = [(rank.is_server, rank.type is DeviceType.CUDA) for rank in topology.ranks]
        own = {kind: rank_bytes(question.model, loads, is_server=kind[0], on_cuda=kind[1]) for kind in dict.fromkeys(kinds)}
        self.rank_bytes = np.array([own[kind] for kind in kinds])
        """[ranks] what each holds whatever its shards."""
        self.tables = table_columns(question.model, topology)

    def shards(self, layout: Layout, rank: Rank, data_type: DataType, table: Ints, shape: ShardShape) -> ShardPrices:
        """For tables [n] of a data type: shards of rows [n, 1] and columns [n, pieces] on the rank's kind of device."""
        sharding = TableSharding(layout.sharding_type, layout.kernel, data_type, self._question.model.optimizer)
        if layout.cache_step is not None:
            factor, hit_rate = (each[table, layout.cache_step][:, None] for each in (self.tables.load_factors, self.tables.hit_rates))
            if layout.sharding_type in ROW_SPLIT:
                hit_rate = self.block_hits(table, factor, hit_rate, shape)
            sharding = replace(sharding, load_factor=factor, hit_rate=hit_rate)
        return self.shards_of(sharding, rank, table, shape)

    def block_hits(self, table: Ints, factor: Floats, hit_rate: Floats, shape: ShardShape) -> Floats:
        """[n, 1] what caches with these load factors take of the lookups of blocks of rows; `hit_rate` is that of whole tables."""
        found = np.broadcast_to(hit_rate, (len(table), 1)).copy()
        for index, where in _by_table(table, self.is_uneven):
            first, rows, factors = (np.broadcast_to(each, found.shape)[where] for each in (shape.first_row, shape.rows, factor))
            found[where] = self._question.model.tables[index].hit_rate(factors, first, rows)
        return found

    def blocks(self, layout: Layout, rank: Rank, data_type: DataType, table: Ints, columns: Ints) -> tuple[ShardPrices, ...]:
        """For tables [n], which the layout splits into blocks of rows, the price of each block."""
        rows = self.tables.rows[table][:, None]
        full = -(-rows // layout.row_blocks)
        first = [np.minimum(number * full, rows) for number in range(layout.row_blocks)]
        shapes = (ShardShape(np.minimum(full, rows - each), columns, each) for each in first)
        return tuple(self.shards(layout, rank, data_type, table, shape) for shape in shapes)

    def shard(self, placement: TablePlacement, rank: Rank, table: int, rows: tuple[int, int], columns: int) -> ShardPrices:
        """One shard of a table that is placed as `placement` says."""
        spec, factor = self._question.model.tables[table], placement.cache_load_factor
        first, count = rows[0], rows[1] - rows[0]
        hit_rate = 0.0 if factor is None else spec.hit_rate(factor, first, count)
        kind, kernel, optimizer = placement.sharding_type, placement.compute_kernel, self._question.model.optimizer
        sharding = TableSharding(kind, kernel, spec.data_type, optimizer, factor or 0.0, hit_rate)
        return self.shards_of(sharding, rank, np.array([table]), ShardShape(np.array([[count]]), np.array([[columns]]), first))

    def placed_shards(self, placement: TablePlacement, table: int) -> Iterator[tuple[Shard, ShardPrices]]:
        """Every shard of a table that is placed as `placement` says. Most are equal, so each shape is priced once."""
        prices: dict[tuple[str, tuple[int, int], int], ShardPrices] = {}
        for shard in placement.shards:
            rank = self._topology.ranks[shard.rank]
            shape = (rank.device, self.alike(table, shard.rows), shard.columns[1] - shard.columns[0])
            if shape not in prices:
                prices[shape] = self.shard(placement, rank, table, shape[1], shape[2])
            yield shard, prices[shape]

    def alike(self, table: int, rows: tuple[int, int]) -> tuple[int, int]:
        """Rows of a block that takes as much as this one: the first so many, where blocks are alike."""
        return rows if self.is_uneven[table] else (0, rows[1] - rows[0])

    def heaviest_block(self, table: Ints, blocks: int) -> Ints:
        """[n] which of so many blocks of rows gets most of a table's lookups."""
        found = np.zeros(len(table), np.int64)
        for index, where in _by_table(table, self.is_uneven):
            rows = int(self.tables.rows[index])
            full = -(-rows // blocks)
            first = np.minimum(np.arange(blocks) * full, rows)
            found[where] = np.argmax(self._table_loads[index].row_share(first, np.minimum(full, rows - first), rows).lookups)
        return found

    def hottest_place(self) -> int | None:
        """The place in a node of the trainers that get most of row splits; None where all get as much."""
        return hottest_place(self._question.model, self._table_loads, self._topology)

    def beyond_shards_bytes(self, tables: Sequence[TablePlacement]) -> Ints:
        """[ranks] how much more system memory each rank peaks at than what it and its shards come to, with these tables."""
        return beyond_shards_bytes(self._question, tables, self._table_loads, self._topology)

    def fixed_load(self, fixed: Fixed) -> RankLoads:
        """What fixed tables put on every rank."""
        ranks = self._topology.ranks
        load = RankLoads(np.zeros((len(ranks), len(self.stages))), np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64))
        for table, placement in fixed.placements.items():
            for shard, price in self.placed_shards(placement, table):
                load.time_us[shard.rank] += price.time_us[0, 0]
                load.time_us[: len(self._topology.trainers)] += price.served_us[0, 0]
                load.hbm_bytes[shard.rank] += price.hbm_bytes[0, 0]
                load.ddr_bytes[shard.rank] += price.ddr_bytes[0, 0]
        return load

    def shards_of(self, sharding: TableSharding, rank: Rank, table: Ints, shape: ShardShape) -> ShardPrices:
        """For tables [n] of one data type that are sharded so: shards of rows [n, 1] and columns [n, pieces] on the rank's kind of device."""
        load = TableLoad(*(values[table][:, None] for values in self._loads))
        columns = shape.columns
        share = self._row_share(table, shape) if sharding.sharding_type in ROW_SPLIT else RowShare.even(1.0)
        work = shard_workload(load, sharding.sharding_type, share, columns, self._topology, on_server=rank.is_server)
        hbm, ddr = shard_bytes(sharding, shape, work.peak, on_cuda=rank.type is DeviceType.CUDA)
        time_us, served_us = np.zeros((2, *columns.shape, len(self.stages)))
        if self.stages:
            self._fill(time_us, shard_stages_us(self._question.cost_model, rank.device, sharding, shape, work))
        if self.stages and rank.is_server:
            self._fill(served_us, served_stages_us(self._question.cost_model, work, self._topology))
        return ShardPrices(time_us, np.broadcast_to(hbm, columns.shape), np.broadcast_to(ddr, columns.shape), served_us)

    def _fill(self, times_us: Floats, of_stages: dict[Stage, Any]) -> None:
        """[..., K] with what is known of each stage."""
        for number, stage in enumerate(self.stages):
            times_us[..., number] = of_stages.get(stage, 0.0)

    def _row_share(self, table: Ints, shape: ShardShape) -> RowShare:
        """[n, 1] what blocks of rows take of their tables."""
        even = shape.rows / self.tables.rows[table][:, None]
        found = RowShare(np.array(even), np.array(even))
        for index, where in _by_table(table, self.is_uneven):
            first, rows = (np.broadcast_to(each, even.shape)[where] for each in (shape.first_row, shape.rows))
            block = self._table_loads[index].row_share(first, rows, int(self.tables.rows[index]))
            found.lookups[where], found.unique_rows[where] = block
        return found


def _by_table(table: Ints, is_wanted: Bools) -> Iterator[tuple[int, Ints]]:
    """(table, its places in `table` [n]) of each that is wanted ([T])."""
    places = np.flatnonzero(is_wanted[table])
    places = places[np.argsort(table[places], kind="stable")]
    for where in np.split(places, np.flatnonzero(np.diff(table[places])) + 1) if len(places) else ():
        yield int(table[where[0]]), where
