"""From an assignment of the integer program to a placement, exact to the byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from emplace.placement.host import DeviceType
from emplace.placement.model import DataType, ShardingType
from emplace.placement.plan import NodeLoad, RankLoad, Shard, TablePlacement
from emplace.placement.sharding import ShardShape
from emplace.placement.stages import PLACED_STAGES, Stage, rank_stages_us, stage_lengths_us
from emplace.placement.sums import add_up, imbalance
from emplace.placement.topology import Rank
from emplace.solver.model.concrete_tables import concrete_tables, may_be_table_wise
from emplace.solver.model.costing import ShardPricer, ShardPrices
from emplace.solver.model.layouts import Layout, load_factor, piece_widths
from emplace.solver.model.priced import PricedQuestion, type_cost_us
from emplace.solver.model.problem import Assignment, Scope, target_devices

_Range = tuple[int, int]
_Shape = tuple[str, int, _Range, int]
"""(device, table, rows, columns)"""
_Prices = dict[_Shape, tuple[ShardPrices, int]]
"""Which of several prices is that of a shape."""


@dataclass(frozen=True)
class _Shard:
    """A shard to be."""

    table: int
    rank: Rank
    rows: _Range
    columns: _Range

    def shape(self, pricer: ShardPricer) -> _Shape:
        """Most shards of a table are equal, and cost the same."""
        return self.rank.device, self.table, pricer.alike(self.table, self.rows), self.columns[1] - self.columns[0]


@dataclass(frozen=True)
class Placement:
    """Where everything is, what every rank and node carries, and the step time that follows."""

    tables: tuple[TablePlacement, ...]
    ranks: tuple[RankLoad, ...]
    nodes: tuple[NodeLoad, ...]
    step_time_us: float
    imbalance: float
    constant_us: float
    """The step without tables."""
    move_cost_us: float = 0.0
    """The price of the bytes that are elsewhere in the plan to start from."""

    @property
    def cost_us(self) -> float:
        """What is minimised."""
        return self.step_time_us + self.move_cost_us

    @property
    def fits(self) -> bool:
        """Whether the exact bytes hold."""
        return all(rank.hbm_bytes <= rank.hbm_capacity_bytes for rank in self.ranks) and all(
            node.ddr_bytes <= node.ddr_capacity_bytes for node in self.nodes
        )


def assemble(priced: PricedQuestion, assignment: Assignment) -> Placement:
    """The placement that an assignment stands for, each shard with its own rows and columns."""
    books = _Books(priced)
    placed = {table: _fixed(priced, books, table, placement) for table, placement in priced.fixed.placements.items()}
    if priced.columns is not None:
        placed |= {table: _fixed(priced, books, table, placement) for table, placement in concrete_tables(priced, assignment).items()}
    else:
        chosen = [
            (layout, list(_shards(priced, layout, table, assignment.targets[index])))
            for index, item in enumerate(priced.items)
            for table, layout in zip(item, priced.layouts_of(int(assignment.option[index])), strict=True)
        ]
        chosen = _plainly(priced, chosen)
        prices = _prices(priced, chosen)
        placed |= {shards[0].table: _table(books, layout, shards, prices) for layout, shards in chosen}
    tables = tuple(placed[table] for table in range(len(placed)))
    for used in dict.fromkeys(table.sharding_type for table in tables):
        books.use(used)
    ranks = books.ranks(tables)
    nodes = books.nodes()
    times = [rank.step_time_us for rank in ranks if not rank.is_server]
    step_time_us = priced.problem.constant_us + float(stage_lengths_us(books.time_us, priced.question.cost_model).sum())
    constant_us = priced.problem.constant_us + books.without_tables_us
    return Placement(tables, ranks, nodes, step_time_us, imbalance(times), constant_us)


def _plainly(priced: PricedQuestion, chosen: list[tuple[Layout, list[_Shard]]]) -> list[tuple[Layout, list[_Shard]]]:
    """With whole tables as table_wise, where all that are column_wise may be called that."""
    pieces = {shards[0].table: len(shards) for layout, shards in chosen if layout.sharding_type is ShardingType.COLUMN_WISE}
    if not may_be_table_wise(priced, pieces):
        return chosen
    whole = {ShardingType.COLUMN_WISE: ShardingType.TABLE_WISE}
    return [(replace(layout, sharding_type=whole.get(layout.sharding_type, layout.sharding_type)), shards) for layout, shards in chosen]


class _Books:
    """What every rank carries."""

    def __init__(self, priced: PricedQuestion) -> None:
        self.priced = priced
        self._on_cuda = np.array([rank.type is DeviceType.CUDA for rank in priced.topology.ranks])
        self._base_us = rank_stages_us(priced.question.cost_model, priced.question.model, priced.topology)
        base_us = [self._base_us.get(stage, 0.0) for stage in PLACED_STAGES]
        self.without_tables_us = add_up(base_us)
        self.time_us = np.repeat(np.array([base_us]), len(priced.topology.ranks), axis=0)
        self.hbm_bytes = np.where(self._on_cuda, priced.pricer.rank_bytes, 0)
        self.ddr_bytes = np.where(self._on_cuda, 0, priced.pricer.rank_bytes)

    def enter(self, price: ShardPrices, index: int, rank: int, rows: _Range, columns: _Range) -> Shard:
        """Book one shard, at the price of that index."""
        hbm, ddr = int(price.hbm_bytes[index, 0]), int(price.ddr_bytes[index, 0])
        self.time_us[rank] += price.time_us[index, 0]
        self.time_us[: len(self.priced.topology.trainers)] += price.served_us[index, 0]
        self.hbm_bytes[rank] += hbm
        self.ddr_bytes[rank] += ddr
        return Shard(rank=rank, rows=rows, columns=columns, hbm_bytes=hbm, ddr_bytes=ddr)

    def use(self, sharding_type: ShardingType) -> None:
        """Pay for a sharding type that some table has."""
        self.time_us += type_cost_us(self.priced, sharding_type)

    def nodes(self) -> tuple[NodeLoad, ...]:
        """The system memory of each node's ranks together."""
        on_node = np.zeros(len(self.priced.topology.node_ddr_capacity_bytes), np.int64)
        np.add.at(on_node, [rank.node for rank in self.priced.topology.ranks], self.ddr_bytes)
        return tuple(
            NodeLoad(node=node, ddr_bytes=int(on_node[node]), ddr_capacity_bytes=capacity)
            for node, capacity in enumerate(self.priced.topology.node_ddr_capacity_bytes)
        )

    def ranks(self, tables: tuple[TablePlacement, ...]) -> tuple[RankLoad, ...]:
        """Every rank, at its own peak with these tables. A server runs no dense layers, and joins every collective."""
        peak_ddr = self.ddr_bytes + self.priced.pricer.beyond_shards_bytes(tables)
        dense_us = self._base_us[Stage.DENSE]
        loads = []
        for rank in self.priced.topology.ranks:
            placed = dict(zip(PLACED_STAGES, self.time_us[rank.rank].tolist(), strict=True))
            stages_us = {stage: placed.get(stage, 0.0 if rank.is_server else dense_us) for stage in Stage}
            loads.append(
                RankLoad(
                    rank=rank.rank,
                    node=rank.node,
                    device=rank.device,
                    is_server=rank.is_server,
                    hbm_bytes=int(self.hbm_bytes[rank.rank]),
                    hbm_capacity_bytes=rank.hbm_capacity_bytes,
                    ddr_bytes=int(peak_ddr[rank.rank]),
                    step_time_us=add_up(stages_us.values()),
                    stages_us=stages_us,
                )
            )
        return tuple(loads)


def _fixed(priced: PricedQuestion, books: _Books, table: int, placement: TablePlacement) -> TablePlacement:
    shards = priced.pricer.placed_shards(placement, table)
    return placement.model_copy(
        update={"shards": tuple(books.enter(price, 0, shard.rank, shard.rows, shard.columns) for shard, price in shards)}
    )


def _table(books: _Books, layout: Layout, shards: list[_Shard], prices: _Prices) -> TablePlacement:
    table, pricer = shards[0].table, books.priced.pricer
    entered = [books.enter(*prices[shard.shape(pricer)], shard.rank.rank, shard.rows, shard.columns) for shard in shards]
    return TablePlacement(
        name=books.priced.question.model.tables[table].name,
        sharding_type=layout.sharding_type,
        compute_kernel=layout.kernel,
        cache_load_factor=load_factor(pricer.tables, layout, table),
        shards=tuple(sorted(entered, key=lambda shard: (shard.rank, shard.rows, shard.columns))),
    )


def _prices(priced: PricedQuestion, placed: list[tuple[Layout, list[_Shard]]]) -> _Prices:
    """What every shape costs: those of one layout, data type and kind of device at once."""
    alike: dict[tuple[Layout, DataType, str], dict[_Shape, Rank]] = defaultdict(dict)
    for layout, shards in placed:
        data_type = priced.question.model.tables[shards[0].table].data_type
        for shard in shards:
            alike[layout, data_type, shard.rank.device][shard.shape(priced.pricer)] = shard.rank
    prices = {}
    for (layout, data_type, _), ranks in alike.items():
        table, first, end, columns = np.array([(table, *rows, columns) for _, table, rows, columns in ranks]).T[:, :, None]
        shape = ShardShape(end - first, columns, first)
        price = priced.pricer.shards(layout, next(iter(ranks.values())), data_type, table[:, 0], shape)
        prices.update({shape: (price, index) for index, shape in enumerate(ranks)})
    return prices


def _shards(priced: PricedQuestion, layout: Layout, table: int, targets: tuple[int, ...]) -> Iterator[_Shard]:
    """Every shard: each target's ranks, in order, hold the blocks of its piece."""
    num_rows = int(priced.pricer.tables.rows[table])
    widths = piece_widths(priced.pricer.tables.columns[table : table + 1], layout.pieces)[0].tolist()
    for target, (start, end) in zip(targets, pairwise(accumulate(widths, initial=0)), strict=True):
        devices = target_devices(priced.problem, Scope(layout.scope), target)
        for index, device in enumerate(devices):
            block, width = -(-num_rows // layout.row_blocks), (end - start) // layout.column_blocks
            row_block = index if layout.row_blocks > 1 else 0
            column_block = index if layout.column_blocks > 1 else 0
            rows = (row_block * block, min((row_block + 1) * block, num_rows))
            columns = (start + column_block * width, start + (column_block + 1) * width)
            yield _Shard(table, priced.topology.ranks[device], rows, columns)
