"""Every placement of a table on a small host, each an option of its own, with what it puts on every rank.

Columns go to ranks in any division by four, on any kinds of device; every rank of a row split is charged its own block. Cache load
factors are a continuum, cut into intervals: an interval is charged the bytes of its smallest cache and, for hits and misses apart,
the time of its least. So no placement that the audit accepts takes less than the option that stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, groupby
from math import comb

import numpy as np
from numpy.typing import NDArray

from emplace.placement.choice import priced_as, table_refusal, tiers_of
from emplace.placement.id_order import BY_FREQUENCY
from emplace.placement.layout import BESIDE_SERVERS, COLUMN_MULTIPLE
from emplace.placement.model import ComputeKernel, ShardingType, Table, Tier
from emplace.placement.plan import Question
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import PLACED_STAGES
from emplace.placement.topology import Topology
from emplace.placement.workload import ROW_SPLIT
from emplace.solver.model.cache_points import INTERVALS, cache_edges
from emplace.solver.model.costing import ShardPricer
from emplace.solver.model.indexing import Number
from emplace.solver.model.problem import Bools, Floats, Ints

SPLITS_COLUMNS_ALONE = (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE)


@dataclass(frozen=True)
class ConcreteWay:
    """How a table is sharded and looked up, whatever lies where. `interval` is that of the cache load factor."""

    sharding_type: ShardingType
    kernel: ComputeKernel
    interval: int | None


@dataclass(frozen=True)
class ConcreteOptions:
    """n placements of the tables of one item on D ranks."""

    way: Ints
    """[n, tables] index into the ways of the question."""
    columns: Ints
    """[n, tables, D] columns on each rank."""
    time_us: Floats
    """[n, D, K]"""
    hbm_bytes: Ints
    """[n, D]"""
    ddr_bytes: Ints
    """[n, D]"""

    def where(self, keep: Bools | Ints) -> ConcreteOptions:
        """Those in `keep`: a mask [n], or indices."""
        return ConcreteOptions(self.way[keep], self.columns[keep], self.time_us[keep], self.hbm_bytes[keep], self.ddr_bytes[keep])


class ConcretePlacer:
    """Enumerates the placements of single tables on one topology."""

    def __init__(
        self, question: Question, topology: Topology, tiers: frozenset[Tier], types: frozenset[ShardingType], pricer: ShardPricer
    ) -> None:
        self._question, self._topology, self._tiers, self._pricer = question, topology, tiers, pricer
        beside = frozenset(BESIDE_SERVERS) if topology.servers else types
        self.ways = tuple(_ways(types & beside))
        self._together = {name for group in question.model.together or () for name in group}

    def count(self, index: int) -> int:
        """At most so many options has a table."""
        columns, topology = self._table(index).embedding_dim, self._topology
        trainers, servers, nodes = len(topology.trainers), len(topology.servers), topology.trainer_nodes
        split = _most_compositions(columns, trainers) + _most_compositions(columns, servers)
        most = dict.fromkeys(SPLITS_COLUMNS_ALONE, split) | {ShardingType.GRID_SHARD: _most_compositions(columns, nodes)}
        return sum(most.get(self.ways[number].sharding_type, trainers + servers) for number in self._open(index))

    def options(self, index: int, allowed: Bools, hbm_room: Ints, ddr_room: Ints) -> ConcreteOptions:
        """The placements of a table on ranks in `allowed` ([D]) that alone fit what ranks and nodes have left."""
        of_kernels = groupby(self._open(index), lambda number: (self.ways[number].sharding_type, self.ways[number].kernel))
        parts = [self._of_ways(index, np.array(list(numbers)), allowed) for _, numbers in of_kernels]
        ranks, stages = len(self._topology.ranks), len(PLACED_STAGES)
        empty = np.empty((0, ranks), np.int64)
        found = ConcreteOptions(
            np.concatenate([np.empty((0, 1), np.int64), *(part.way for part in parts)]),
            np.concatenate([empty[:, None], *(part.columns for part in parts)]),
            np.concatenate([np.empty((0, ranks, stages)), *(part.time_us for part in parts)]),
            np.concatenate([empty, *(part.hbm_bytes for part in parts)]),
            np.concatenate([empty, *(part.ddr_bytes for part in parts)]),
        )
        return found.where(self.fits(found, hbm_room, ddr_room))

    def fits(self, options: ConcreteOptions, hbm_room: Ints, ddr_room: Ints) -> Bools:
        """[n] whether options fit empty ranks and nodes."""
        node = np.array([rank.node for rank in self._topology.ranks])
        on_node = options.ddr_bytes @ (node[:, None] == np.arange(len(ddr_room))).astype(np.int64)
        return np.asarray((options.hbm_bytes <= hbm_room).all(axis=1) & (on_node <= ddr_room).all(axis=1))

    def _table(self, index: int) -> Table:
        return self._question.model.tables[index]

    def _open(self, index: int) -> list[int]:
        """The ways that a table's constraints allow."""
        table = self._table(index)
        limits = self._question.model.limits(table)
        types = (ShardingType.TABLE_WISE,) if table.name in self._together else limits.sharding_types
        return [
            number
            for number, way in enumerate(self.ways)
            if (types is None or way.sharding_type in types)
            and (limits.compute_kernels is None or way.kernel in limits.compute_kernels)
            and (way.interval is None or self._has_interval(table, way.interval))
            and self._running(table, way.kernel).any()
        ]

    def _has_interval(self, table: Table, interval: int) -> bool:
        factors, _ = cache_edges(table.access, table.num_embeddings)
        return bool(factors[interval] < factors[interval + 1]) or (interval == 0 and table.num_embeddings == 1)

    def _running(self, table: Table, kernel: ComputeKernel) -> Bools:
        """[D] the ranks that run the kernel, in tiers that are allowed."""
        cost = self._question.cost_model
        tiers = self._tiers if table.constraints.tiers is None else self._tiers & frozenset(table.constraints.tiers)
        return np.array(
            [
                table_refusal(kernel, rank, self._question.model, table) is None
                and all(cost.kernel(rank.device, part) for part in priced_as(kernel))
                and tiers_of(kernel, rank) <= tiers
                for rank in self._topology.ranks
            ]
        )

    def _of_ways(self, index: int, numbers: Ints, allowed: Bools) -> ConcreteOptions:
        """By ways that differ in nothing but the interval of the cache: one after the other, each with all divisions of the columns."""
        ways, table = [self.ways[number] for number in numbers], self._table(index)
        columns = divisions(ways[0].sharding_type, table.embedding_dim, self._topology)
        columns = columns[~(columns > 0)[:, ~(allowed & self._running(table, ways[0].kernel))].any(axis=1)]
        width = self._question.model.module_of(table).column_width
        if ways[0].sharding_type is ShardingType.COLUMN_WISE and width is not None:
            columns = columns[np.isin(columns, [0, width]).all(axis=1)]
        fours, rank = columns // COLUMN_MULTIPLE, np.arange(columns.shape[1])[None, :]

        def of_columns(prices: NDArray[Number]) -> NDArray[Number]:
            return np.concatenate(prices[:, rank, fours])

        prices_us, hbm, ddr, served_us = self._rank_prices(index, ways, np.asarray((columns > 0).any(axis=0)))
        time_us = of_columns(prices_us)
        time_us[:, : len(self._topology.trainers)] += of_columns(served_us).sum(axis=1, keepdims=True)
        way, on_ranks = np.repeat(numbers, len(columns)), np.tile(columns, (len(ways), 1))
        return ConcreteOptions(way[:, None], on_ranks[:, None], time_us, of_columns(hbm), of_columns(ddr))

    def _rank_prices(self, index: int, ways: list[ConcreteWay], used: Bools) -> tuple[Floats, Ints, Ints, Floats]:
        """What so many fours of columns put on each rank: ([ways, D, fours + 1, K] microseconds, [ways, D, fours + 1] bytes of HBM, of system
        memory), and [ways, D, fours + 1, K] microseconds that they put on every trainer."""
        table, ranks, kind = self._table(index), self._topology.ranks, ways[0].sharding_type
        fours = np.arange(1, table.embedding_dim // COLUMN_MULTIPLE + 1)
        shape = len(ways), len(ranks), len(fours) + 1
        time_us, served_us = np.zeros((2, *shape, len(PLACED_STAGES)))
        hbm, ddr = np.zeros((2, *shape), np.int64)
        known: dict[tuple[str, tuple[int, int]], int] = {}
        for rank in (each for each in ranks if used[each.rank]):
            start, end = block_of(kind, table.num_embeddings, rank.rank, self._topology)
            same = known.setdefault((rank.device, self._pricer.alike(index, (start, end))), rank.rank)
            if same == rank.rank:
                pieces = ShardShape(np.full((len(ways), 1), end - start), np.tile(COLUMN_MULTIPLE * fours, (len(ways), 1)), start)
                price = self._pricer.shards_of(self._sharding(table, ways, (start, end)), rank, np.full(len(ways), index), pieces)
                time_us[:, same, 1:], hbm[:, same, 1:], ddr[:, same, 1:] = price.time_us, price.hbm_bytes, price.ddr_bytes
                served_us[:, same, 1:] = price.served_us
            for each in (time_us, hbm, ddr, served_us):
                each[:, rank.rank] = each[:, same]
        return time_us, hbm, ddr, served_us

    def _sharding(self, table: Table, ways: list[ConcreteWay], rows: tuple[int, int]) -> TableSharding:
        kind, kernel, optimizer = ways[0].sharding_type, ways[0].kernel, self._question.model.optimizer
        if ways[0].interval is None:
            return TableSharding(kind, kernel, table.data_type, optimizer)
        factors, hits = cache_edges(table.access, table.num_embeddings)
        if kind in ROW_SPLIT and table.ids == BY_FREQUENCY:
            hits = np.append(0.0, table.hit_rate(factors[1:], rows[0], rows[1] - rows[0]))
        least, most = (np.array([way.interval for way in ways])[:, None] + end for end in (0, 1))
        return TableSharding(kind, kernel, table.data_type, optimizer, factors[least], hits[least], 1.0 - hits[most])


def _ways(types: frozenset[ShardingType]) -> Iterator[ConcreteWay]:
    for kind in (kind for kind in ShardingType if kind in types):
        if kind is ShardingType.DATA_PARALLEL:
            yield ConcreteWay(kind, ComputeKernel.DENSE, None)
        else:
            yield ConcreteWay(kind, ComputeKernel.FUSED, None)
            yield ConcreteWay(kind, ComputeKernel.FUSED_UVM, None)
            yield from (ConcreteWay(kind, ComputeKernel.FUSED_UVM_CACHING, interval) for interval in range(INTERVALS))


def divisions(kind: ShardingType, columns: int, topology: Topology) -> Ints:
    """[n, D] every way to lay a table's columns on ranks that the sharding type has."""
    trainers, servers, nodes = len(topology.trainers), len(topology.servers), topology.trainer_nodes
    fours, ranks = columns // COLUMN_MULTIPLE, len(topology.ranks)
    if kind is ShardingType.TABLE_WISE:
        return columns * np.eye(ranks, dtype=np.int64)
    if kind in (ShardingType.ROW_WISE, ShardingType.DATA_PARALLEL):
        return np.full((1, ranks), columns)
    if kind in (ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD):
        by_node = fours * np.eye(nodes, dtype=np.int64) if kind is ShardingType.TABLE_ROW_WISE else _compositions(fours, nodes)
        return np.asarray(COLUMN_MULTIPLE * np.repeat(by_node, topology.trainers_per_node, axis=1))
    found = np.pad(_compositions(fours, trainers), ((0, 0), (0, servers)))
    if servers:
        found = np.concatenate([found, np.pad(_compositions(fours, servers), ((0, 0), (trainers, 0)))])
    if kind is ShardingType.TABLE_COLUMN_WISE:
        node = np.array([rank.node for rank in topology.ranks])
        used = (found > 0) @ (node[:, None] == np.arange(nodes)).astype(np.int64) > 0
        found = found[used.sum(axis=1) == 1]
    return np.asarray(COLUMN_MULTIPLE * found)


def _most_compositions(columns: int, parts: int) -> int:
    """How many `_compositions` there are of the fours of columns."""
    return comb(columns // COLUMN_MULTIPLE + parts - 1, parts - 1) if parts else 0


@cache
def _compositions(total: int, parts: int) -> Ints:
    """[n, parts] every way to write `total` as a sum of whole numbers from 0, in order."""
    bars = list(combinations(range(total + parts - 1), parts - 1))
    ends = np.array(bars, dtype=np.int64).reshape(len(bars), parts - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), ends, np.full((len(bars), 1), total + parts - 1)])
    return np.diff(edges, axis=1) - 1


def block_of(kind: ShardingType, num_rows: int, rank: int, topology: Topology) -> tuple[int, int]:
    """The rows that a rank holds, if it holds some: with row splits blocks of ceil(rows / ranks), the last ones shorter or empty."""
    if kind not in ROW_SPLIT:
        return 0, num_rows
    blocks = len(topology.trainers) if kind is ShardingType.ROW_WISE else topology.trainers_per_node
    block, index = -(-num_rows // blocks), rank % blocks
    return min(index * block, num_rows), min((index + 1) * block, num_rows)
