"""Every way to place one table that the audit accepts, priced by the audit's own arithmetic.

A way is a sharding type, a kernel and a cache load factor; under it, columns go to ranks in every division by four. Cache load
factors are a continuum: some of them stand for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from emplace.placement.choice import choice_flaws
from emplace.placement.derived_loads import STAGES, ShardLoads
from emplace.placement.layout import COLUMN_MULTIPLE, layout_flaws
from emplace.placement.model import ComputeKernel, ShardingType, Table
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.topology import Topology
from emplace.placement.workload import TableLoad

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_ROWS = (ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD)
LOAD_FACTORS = 16
"""Cache load factors that are tried: even steps on a scale of logarithms, up to 1."""


@dataclass(frozen=True)
class Way:
    """How a table is sharded and looked up, whatever lies where."""

    sharding_type: ShardingType
    kernel: ComputeKernel
    load_factor: float | None


@dataclass(frozen=True)
class Choices:
    """C placements of one table on R ranks and N nodes, with K stages."""

    table: Table
    ways: list[Way]
    way: Ints
    """[C] index into `ways`."""
    columns: Ints
    """[C, R] columns on each rank; 0 where there is no shard."""
    time_us: Floats
    """[C, R, K]"""
    hbm: Ints
    """[C, R] bytes."""
    ddr: Ints
    """[C, N] bytes."""

    def where(self, keep: Bools | Ints) -> Choices:
        """Those in `keep`: a mask [C], or indices."""
        return Choices(self.table, self.ways, self.way[keep], self.columns[keep], self.time_us[keep], self.hbm[keep], self.ddr[keep])

    @property
    def type_bit(self) -> Ints:
        """[C] a bit for each sharding type."""
        bit = {kind: 1 << number for number, kind in enumerate(ShardingType)}
        return np.array([bit[way.sharding_type] for way in self.ways], dtype=np.int64)[self.way]

    def placement(self, choice: int, topology: Topology) -> TablePlacement:
        """As a plan has it."""
        return placed(self.table, self.ways[self.way[choice]], self.columns[choice].tolist(), topology)


def every_choice(question: Question, table: Table, load: TableLoad, topology: Topology) -> Choices:
    """All placements of a table, capacities and groups apart."""
    parts = []
    for ways in _ways(question, table):
        columns = _sound(question, table, topology, ways[0])
        if len(columns):
            runs = _running(question, table, topology, ways[0])
            parts += [_of_way(question, table, load, topology, way, columns, runs) for way in ways]
    ranks, nodes = len(topology.ranks), len(topology.node_ddr_capacity_bytes)
    return Choices(
        table,
        [part.ways[0] for part in parts],
        np.repeat(np.arange(len(parts)), [len(part.way) for part in parts]),
        np.concatenate([np.empty((0, ranks), np.int64), *(part.columns for part in parts)]),
        np.concatenate([np.empty((0, ranks, len(STAGES))), *(part.time_us for part in parts)]),
        np.concatenate([np.empty((0, ranks), np.int64), *(part.hbm for part in parts)]),
        np.concatenate([np.empty((0, nodes), np.int64), *(part.ddr for part in parts)]),
    )


def placed(table: Table, way: Way, columns: list[int], topology: Topology) -> TablePlacement:
    """`columns` on each rank, from left to right in the order of ranks; of a row split, those of the piece that the rank's node holds."""
    shards, start = [], 0
    for rank, width in enumerate(columns):
        first = rank == 0 or topology.ranks[rank].node != topology.ranks[rank - 1].node
        if way.sharding_type is ShardingType.DATA_PARALLEL or (
            way.sharding_type in _ROWS and way.sharding_type is not ShardingType.GRID_SHARD
        ):
            left = 0
        elif way.sharding_type is ShardingType.GRID_SHARD:
            start += width if first else 0
            left = start - width
        else:
            left, start = start, start + width
        if width:
            rows = _rows(table, way, rank, topology)
            shards.append(Shard.model_construct(rank=rank, rows=rows, columns=(left, left + width), hbm_bytes=0, ddr_bytes=0))
    return TablePlacement.model_construct(
        name=table.name, sharding_type=way.sharding_type, compute_kernel=way.kernel, cache_load_factor=way.load_factor, shards=tuple(shards)
    )


def _rows(table: Table, way: Way, rank: int, topology: Topology) -> tuple[int, int]:
    """The block of rows that a rank holds: ceil(rows / ranks) each, the last ones shorter or empty."""
    if way.sharding_type not in _ROWS:
        return 0, table.num_embeddings
    whole = way.sharding_type is ShardingType.ROW_WISE
    blocks, index = (len(topology.trainers), rank) if whole else (topology.trainers_per_node, rank % topology.trainers_per_node)
    block = -(-table.num_embeddings // blocks)
    return min(index * block, table.num_embeddings), min((index + 1) * block, table.num_embeddings)


def _ways(question: Question, table: Table) -> Iterator[list[Way]]:
    """Those that differ in the cache load factor alone side by side."""
    for kind in ShardingType:
        if kind is ShardingType.DATA_PARALLEL:
            yield [Way(kind, ComputeKernel.DENSE, None)]
            continue
        yield [Way(kind, ComputeKernel.FUSED, None)]
        yield [Way(kind, ComputeKernel.FUSED_UVM, None)]
        if question.host.has_cuda and (factors := _load_factors(table)):
            yield [Way(kind, ComputeKernel.FUSED_UVM_CACHING, factor) for factor in factors]


def _load_factors(table: Table) -> list[float]:
    pin = table.constraints.pin
    if pin is not None:
        return [] if pin.cache_load_factor is None else [pin.cache_load_factor]
    return sorted({float(f"{max(factor, 1 / table.num_embeddings):.6g}") for factor in np.geomspace(1e-4, 1.0, LOAD_FACTORS)})


def _sound(question: Question, table: Table, topology: Topology, way: Way) -> Ints:
    """[C, R] the divisions of columns that the audit accepts: it judges ranks and kernels, and widths of pinned tables and of sequences alone."""
    columns = _divisions(table, way, topology)
    has_widths = table.constraints.pin is not None or not question.model.module_of(table).is_pooled
    alike = np.arange(len(columns)) if has_widths else (columns > 0) @ (1 << np.arange(columns.shape[1]))
    different, first = np.unique(alike, return_index=True)
    samples = [placed(table, way, columns[index].tolist(), topology) for index in first]
    accepted = [not layout_flaws(table, each, topology) and not choice_flaws(question, table, each, topology) for each in samples]
    return columns[np.isin(alike, different[np.array(accepted, dtype=bool)])]


def _running(question: Question, table: Table, topology: Topology, way: Way) -> list[bool]:
    """[R] whether the audit lets each rank run the kernel."""
    ranks = len(topology.ranks)
    alone = [placed(table, way, [table.embedding_dim * (number == rank) for number in range(ranks)], topology) for rank in range(ranks)]
    flaws = [choice_flaws(question, table, each, topology) for each in alone]
    return [all(pointer != "/compute_kernel" for pointer, _ in each) for each in flaws]


def _of_way(question: Question, table: Table, load: TableLoad, topology: Topology, way: Way, columns: Ints, runs: list[bool]) -> Choices:
    prices_us, served_us, hbm, ddr = _rank_prices(question, table, load, topology, way, runs)
    rank, fours = np.arange(len(topology.ranks))[None, :], columns // COLUMN_MULTIPLE
    by_node = np.zeros((len(columns), len(topology.node_ddr_capacity_bytes)), dtype=np.int64)
    for number, each in enumerate(topology.ranks):
        by_node[:, each.node] += ddr[number, fours[:, number]]
    way_index, time_us = np.zeros(len(columns), dtype=np.int64), prices_us[rank, fours]
    time_us[:, : len(topology.trainers)] += served_us[rank, fours].sum(axis=1, keepdims=True)
    return Choices(table, [way], way_index, columns, time_us, hbm[rank, fours], by_node)


def _divisions(table: Table, way: Way, topology: Topology) -> Ints:
    """[C, R] columns on each rank."""
    trainers, local, nodes = len(topology.trainers), topology.trainers_per_node, topology.trainer_nodes
    fours, servers = table.embedding_dim // COLUMN_MULTIPLE, len(topology.servers)
    kind = way.sharding_type
    if kind is ShardingType.COLUMN_WISE or kind is ShardingType.TABLE_COLUMN_WISE:
        on_trainers = np.pad(_compositions(fours, trainers), ((0, 0), (0, servers)))
        on_servers = np.pad(_compositions(fours, servers), ((0, 0), (trainers, 0))) if servers else on_trainers[:0]
        found = np.concatenate([on_trainers, on_servers])
    elif kind is ShardingType.TABLE_WISE:
        found = fours * np.eye(trainers + servers, dtype=np.int64)
    elif servers:
        return np.empty((0, trainers + servers), dtype=np.int64)
    elif kind in (ShardingType.ROW_WISE, ShardingType.DATA_PARALLEL):
        found = np.full((1, trainers), fours)
    else:
        by_node = _compositions(fours, nodes) if kind is ShardingType.GRID_SHARD else fours * np.eye(nodes, dtype=np.int64)
        found = np.repeat(by_node, local, axis=1)
    return found * COLUMN_MULTIPLE


@lru_cache(maxsize=1000)
def _compositions(total: int, parts: int) -> Ints:
    """[n, parts] all ways to write `total` as an ordered sum of numbers from 0."""
    chosen = list(combinations(range(total + parts - 1), parts - 1))
    bars = np.array(chosen, dtype=np.int64).reshape(len(chosen), parts - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), total + parts - 1)])
    return np.diff(edges, axis=1) - 1


def _rank_prices(
    question: Question, table: Table, load: TableLoad, topology: Topology, way: Way, runs: list[bool]
) -> tuple[Floats, Floats, Ints, Ints]:
    """What a shard of so many fours of columns puts on a rank: ([R, fours + 1, K] microseconds there and on every trainer, [R, fours + 1]
    bytes twice)."""
    fours, ranks = table.embedding_dim // COLUMN_MULTIPLE, len(topology.ranks)
    time_us, served_us = np.zeros((2, ranks, fours + 1, len(STAGES)))
    hbm, ddr = np.zeros((2, ranks, fours + 1), np.int64)
    whole = way.sharding_type not in (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD)
    widths = [fours] if whole else range(1, fours + 1)
    known: dict[tuple[str, tuple[int, int]], int] = {}
    for number, rank in enumerate(topology.ranks):
        rows = _rows(table, way, number, topology)
        same = known.setdefault((rank.device, (0, rows[1] - rows[0]) if load.curves is None else rows), number)
        if same != number:
            for each in (time_us, served_us, hbm, ddr):
                each[number] = each[same]
            continue
        if not runs[number]:
            continue
        shards = tuple(
            Shard.model_construct(rank=number, rows=rows, columns=(0, width * COLUMN_MULTIPLE), hbm_bytes=0, ddr_bytes=0)
            for width in widths
        )
        placement = placed(table, way, [0] * ranks, topology).model_copy(update={"shards": shards})
        loads = ShardLoads.of(question, placement, table, load, topology)
        at = np.array(widths)
        time_us[number, at], hbm[number, at], ddr[number, at] = loads.stages_us, loads.hbm, loads.ddr
        served_us[number, at] = loads.served_us
    return time_us, served_us, hbm, ddr
