"""From a question to the arrays of its integer program: every layout priced for every table it is open to.

A row-split table is charged its shortest block on every rank, in time and in bytes: never more than it takes, so that
bounds and proofs hold for the exact plan. The exact figures are those of solver/model/extract.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from emplace.placement.host import DeviceType
from emplace.placement.memory import rank_bytes, row_bytes, shard_bytes
from emplace.placement.model import ComputeKernel, DataType, ModelSpec, ShardingType, Tier
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.stages import PLACED_STAGES, Stage, rank_stages_us, shard_stages_us, sharding_type_stages_us
from emplace.placement.topology import Rank, Topology
from emplace.placement.workload import TableLoad, model_loads, shard_workload
from emplace.solver.model.colocation import OptionArrays
from emplace.solver.model.conflicts import Groups, crowded
from emplace.solver.model.fixed import Fixed, fixed_tables
from emplace.solver.model.items import Items, items_of
from emplace.solver.model.layouts import Layout, layouts, open_to, piece_widths, table_columns
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope


@dataclass(frozen=True)
class Priced:
    """A question on one topology, as arrays, with what is needed to read an assignment back.

    Tables of `problem` are the items, then one for each rank that fixed tables load.
    """

    question: Question
    topology: Topology
    problem: Problem
    items: tuple[tuple[int, ...], ...]
    """The tables of the model (by index) that are placed as one: a single one, or a group that is kept together."""
    layouts: tuple[Layout, ...]
    option_layout: Ints
    """[O] index into `layouts`; of a group, that of its first table; -1 for what fixed tables load."""
    option_layouts: Mapping[int, tuple[int, ...]]
    """Of a group's options, one index for each of its tables."""
    apart: Groups
    """Items that may share no device; `problem` doesn't know of it."""
    fixed: Fixed
    fixed_bytes: tuple[Ints, Ints]
    """[ranks] HBM and system memory of the fixed tables, already taken off the capacities of `problem`."""
    pricer: ShardPricer
    rank_bytes: Ints
    """[ranks] what each rank holds apart from its shards."""
    slack_bytes: int
    """The most by which the exact bytes on one rank can exceed those of the program."""
    parted: Problem | None
    """The problem without groups, where combinations of groups were left out that a plan might need; else None."""

    @property
    def relaxed(self) -> Problem:
        """What bounds every plan: `problem`, or one that allows more."""
        return self.problem if self.parted is None else self.parted

    @property
    def every_item_has_an_option(self) -> bool:
        """Whether nothing is impossible on its own, beside what ranks hold anyway."""
        has_room = bool((self.problem.hbm_capacity >= 0).all() and (self.problem.ddr_capacity >= 0).all())
        return has_room and not self.fixed.conflicts and bool(np.isin(np.arange(len(self.items)), self.problem.option_table).all())

    def layouts_of(self, option: int) -> list[Layout]:
        """One for each table of the option's item."""
        return [self.layouts[index] for index in self.option_layouts.get(option, (int(self.option_layout[option]),))]

    def item_name(self, item: int) -> str:
        return " + ".join(self.question.model.tables[table].name for table in self.items[item])


def price(
    question: Question,
    topology: Topology,
    tiers: frozenset[Tier],
    *,
    only_fitting: bool = True,
    held: Mapping[str, TablePlacement] | None = None,
) -> Priced:
    """Every option within `tiers`, priced; `only_fitting` drops those too large for any target; `held` tables stay so.

    Capacities are what is left beside the ranks' own bytes and fixed tables, and below zero where those are too much.
    """
    ranks, pricer = topology.ranks, ShardPricer(question, topology)
    kinds = list(dict.fromkeys((rank.device, rank.is_server) for rank in ranks))
    one_of_each = [next(rank for rank in ranks if (rank.device, rank.is_server) == kind) for kind in kinds]
    device_kind = np.array([kinds.index((rank.device, rank.is_server)) for rank in ranks])
    own_bytes = np.array([pricer.rank_bytes[rank.is_server] for rank in ranks])
    fixed = fixed_tables(question, topology, held or {})
    load = pricer.fixed_load(fixed)
    hbm_capacity, ddr_capacity = _capacities(topology, own_bytes)
    hbm_capacity = hbm_capacity - load.hbm_bytes
    np.subtract.at(ddr_capacity, [rank.node for rank in ranks], load.ddr_bytes)
    room = _Room(one_of_each, device_kind, topology, hbm_capacity, ddr_capacity) if only_fitting else None
    offered = tuple(layouts(topology, question.cost_model, question.model.optimizer, tiers))
    layout_kind = np.array([_kind_index(layout, kinds) for layout in offered], dtype=np.int64)
    by_layout = _LayoutPricer(pricer, question.model, topology, one_of_each, room, fixed)
    options = _Options([block for index, layout in enumerate(offered) for block in by_layout.price(index, layout)], len(kinds))
    items = items_of(question, topology, options.arrays, layout_kind, device_kind, fixed, load.time_us)
    parted = _parted(question, topology, tiers, held) if items.is_thinned else None
    base = rank_stages_us(question.cost_model, question.model, topology)
    problem = Problem(
        device_kind=device_kind,
        device_node=np.array([rank.node for rank in ranks]),
        device_is_trainer=np.array([not rank.is_server for rank in ranks]),
        device_pool=np.array([rank.node for rank in ranks]),
        hbm_capacity=hbm_capacity,
        ddr_capacity=ddr_capacity,
        constant_us=question.cost_model.step_overhead_us + base[Stage.DENSE],
        stage_base_us=np.array([base.get(stage, 0.0) for stage in PLACED_STAGES]),
        option_table=items.options.table,
        option_scope=np.append([int(layout.scope) for layout in offered], int(Scope.DEVICE)).astype(np.int64)[items.options.layout],
        option_kind=items.option_kind,
        option_first_unit=items.options.first_unit,
        unit_time_us=items.options.time_us,
        unit_hbm_bytes=items.options.hbm_bytes,
        unit_ddr_bytes=items.options.ddr_bytes,
        allowed=items.allowed,
    )
    return Priced(
        question,
        topology,
        problem,
        items.items,
        offered,
        items.options.layout,
        items.option_layouts,
        items.apart,
        replace(fixed, conflicts=(*fixed.conflicts, *_crowded(question, items, len(ranks)))),
        (load.hbm_bytes, load.ddr_bytes),
        pricer,
        own_bytes,
        options.slack_bytes,
        parted,
    )


def type_cost_us(priced: Priced, sharding_type: ShardingType) -> Floats:
    """[K] what every rank pays in each stage of the program for a sharding type in use."""
    fixed = sharding_type_stages_us(priced.question.cost_model, sharding_type, priced.topology)
    return np.array([fixed.get(stage, 0.0) for stage in PLACED_STAGES])


def _parted(question: Question, topology: Topology, tiers: frozenset[Tier], held: Mapping[str, TablePlacement] | None) -> Problem:
    model = question.model.model_copy(update={"together": None})
    return price(question.model_copy(update={"model": model}), topology, tiers, held=held).problem


def _crowded(question: Question, items: Items, num_ranks: int) -> Iterator[tuple[str, str]]:
    for group in crowded(items.apart, items.allowed, num_ranks):
        names = [question.model.tables[table].name for item in group for table in items.items[item]]
        where = f"the job has {num_ranks} devices" if items.allowed is None else "the ranks that are allowed for them are too few"
        yield " + ".join(names), f"must be apart, which takes {len(group)} devices: {where}"


def _capacities(topology: Topology, own_bytes: Ints) -> tuple[Ints, Ints]:
    """([ranks] HBM, [nodes] system memory) left beside the ranks' own bytes."""
    on_cuda = np.array([rank.type is DeviceType.CUDA for rank in topology.ranks])
    hbm = np.array([rank.hbm_capacity_bytes for rank in topology.ranks]) - np.where(on_cuda, own_bytes, 0)
    ddr = np.array(topology.node_ddr_capacity_bytes)
    np.subtract.at(ddr, [rank.node for rank in topology.ranks], np.where(on_cuda, 0, own_bytes))
    return hbm, ddr


def _kind_index(layout: Layout, kinds: list[tuple[str, bool]]) -> int:
    return kinds.index((layout.device, layout.on_server)) if layout.device is not None else -1


class _Room:
    """Which options fit at least one target on their own."""

    def __init__(self, kinds: list[Rank], device_kind: Ints, topology: Topology, hbm_capacity: Ints, ddr_capacity: Ints) -> None:
        nodes = np.array([rank.node for rank in topology.ranks])
        self._hbm = np.array([hbm_capacity[device_kind == kind].max() for kind in range(len(kinds))])
        self._ddr = np.array([ddr_capacity[nodes[device_kind == kind]].max() for kind in range(len(kinds))])
        on_first_node = (nodes == 0) & np.array([not rank.is_server for rank in topology.ranks])
        self._per_node = np.bincount(device_kind[on_first_node], minlength=len(kinds))
        self._node_ddr = ddr_capacity[: topology.trainer_nodes].max()

    def fits(self, layout: Layout, hbm_bytes: Ints, ddr_bytes: Ints) -> Bools:
        """[n] for bytes [n, pieces, G]."""
        fits = (hbm_bytes <= self._hbm).all(axis=(1, 2))
        if layout.scope is Scope.DEVICE:
            return np.asarray(fits & (ddr_bytes <= self._ddr).all(axis=(1, 2)))
        return np.asarray(fits & ((ddr_bytes @ self._per_node) <= self._node_ddr).all(axis=1))


@dataclass(frozen=True)
class _Block:
    """The options of one layout and data type, `pieces` units each."""

    layout: int
    table: Ints
    """[n]"""
    time_us: Floats
    """[n, pieces, G, K]"""
    hbm_bytes: Ints
    """[n, pieces, G]"""
    ddr_bytes: Ints
    slack_bytes: Ints
    """[n] the most that a full block takes beyond the shortest one."""

    def where(self, keep: Bools) -> _Block:
        return _Block(self.layout, self.table[keep], self.time_us[keep], self.hbm_bytes[keep], self.ddr_bytes[keep], self.slack_bytes[keep])


@dataclass(frozen=True)
class ShardPrices:
    """What shards [n, pieces] take on one kind of device."""

    time_us: Floats
    """[n, pieces, K]"""
    hbm_bytes: Ints
    """[n, pieces]"""
    ddr_bytes: Ints


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

    def __init__(self, question: Question, topology: Topology) -> None:
        self._question, self._topology = question, topology
        loads = model_loads(question.model, topology, question.options.objective)
        self._loads = [np.array([getattr(load, field.name) for load in loads]) for field in fields(TableLoad)]
        self.rank_bytes = {is_server: rank_bytes(question.model, loads, is_server=is_server) for is_server in (False, True)}
        self.tables = table_columns(question.model)

    def shards(self, layout: Layout, rank: Rank, data_type: DataType, table: Ints, rows: Ints, columns: Ints) -> ShardPrices:
        """For tables [n] of a data type: shards of rows [n, 1] and columns [n, pieces] on the rank's kind of device."""
        factor, hit_rate = 0.0, 0.0
        if layout.cache_step is not None:
            factor, hit_rate = (each[table, layout.cache_step][:, None] for each in (self.tables.load_factors, self.tables.hit_rates))
        return self._shards(layout.sharding_type, layout.kernel, rank, data_type, table, rows, columns, factor, hit_rate)

    def shard(self, placement: TablePlacement, rank: Rank, table: int, rows: int, columns: int) -> ShardPrices:
        """One shard of a table that is placed as `placement` says."""
        spec, factor = self._question.model.tables[table], placement.cache_load_factor
        hit_rate = 0.0 if factor is None else spec.accesses.hit_rate(factor)
        sides = np.array([table]), np.array([[rows]]), np.array([[columns]])
        return self._shards(placement.sharding_type, placement.compute_kernel, rank, spec.data_type, *sides, factor or 0.0, hit_rate)

    def placed_shards(self, placement: TablePlacement, table: int) -> Iterator[tuple[Shard, ShardPrices]]:
        """Every shard of a table that is placed as `placement` says. Most are equal, so each shape is priced once."""
        prices: dict[tuple[str, int, int], ShardPrices] = {}
        for shard in placement.shards:
            rank = self._topology.ranks[shard.rank]
            shape = (rank.device, shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0])
            if shape not in prices:
                prices[shape] = self.shard(placement, rank, table, shape[1], shape[2])
            yield shard, prices[shape]

    def fixed_load(self, fixed: Fixed) -> RankLoads:
        """What fixed tables put on every rank."""
        ranks = self._topology.ranks
        load = RankLoads(np.zeros((len(ranks), len(PLACED_STAGES))), np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64))
        for table, placement in fixed.placements.items():
            for shard, price in self.placed_shards(placement, table):
                load.time_us[shard.rank] += price.time_us[0, 0]
                load.hbm_bytes[shard.rank] += price.hbm_bytes[0, 0]
                load.ddr_bytes[shard.rank] += price.ddr_bytes[0, 0]
        return load

    def _shards(
        self,
        sharding_type: ShardingType,
        kernel: ComputeKernel,
        rank: Rank,
        data_type: DataType,
        table: Ints,
        rows: Ints,
        columns: Ints,
        factor: Floats | float,
        hit_rate: Floats | float,
    ) -> ShardPrices:
        load = TableLoad(*(values[table][:, None] for values in self._loads))
        share = rows / self.tables.rows[table][:, None]
        work = shard_workload(load, sharding_type, share, columns, self._topology, on_server=rank.is_server)
        width_bytes = row_bytes(data_type, columns)
        stages = shard_stages_us(
            self._question.cost_model,
            rank.device,
            kernel,
            sharding_type,
            work,
            row_bytes=width_bytes,
            columns=columns,
            weight_bytes=rows * width_bytes,
            hit_rate=hit_rate,
            optimizer=self._question.model.optimizer,
            data_type=data_type,
        )
        hbm, ddr = shard_bytes(
            kernel,
            data_type,
            self._question.model.optimizer,
            rows,
            columns,
            work.peak_ids,
            work.bags,
            cache_load_factor=factor,
            on_cuda=rank.type is DeviceType.CUDA,
        )
        time_us = np.stack([np.broadcast_to(stages[stage], columns.shape) for stage in PLACED_STAGES], axis=-1)
        return ShardPrices(time_us, np.broadcast_to(hbm, columns.shape), np.broadcast_to(ddr, columns.shape))


class _LayoutPricer:
    """Prices layouts, one after the other, for every table that they are open to."""

    def __init__(
        self, pricer: ShardPricer, model: ModelSpec, topology: Topology, kinds: list[Rank], room: _Room | None, fixed: Fixed
    ) -> None:
        self._pricer, self._topology, self._kinds, self._room = pricer, topology, kinds, room
        grouped = {name for group in model.together or () for name in group}
        self._free = np.array([index not in fixed.placements and table.constraints.pin is None for index, table in enumerate(model.tables)])
        self._single = np.array([table.name not in grouped for table in model.tables])
        parted = {name for group in model.apart or () for name in group}
        self._alone = np.array([table.name not in parted for table in model.tables])
        types = [table.data_type for table in model.tables]
        self._of_type = {data_type: np.array([each is data_type for each in types]) for data_type in dict.fromkeys(types)}

    def price(self, index: int, layout: Layout) -> list[_Block]:
        """The options of a layout that fit somewhere, one block per data type."""
        is_open = open_to(layout, self._pricer.tables, self._topology) & self._free
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

    def _block(self, index: int, layout: Layout, data_type: DataType, table: Ints) -> _Block:
        columns = piece_widths(self._pricer.tables.columns[table], layout.pieces) // layout.column_blocks
        rows = self._pricer.tables.rows[table][:, None]
        full = -(-rows // layout.row_blocks)
        shortest = rows - full * (layout.row_blocks - 1)
        shape = (*columns.shape, len(self._kinds))
        time_us = np.zeros((*shape, len(PLACED_STAGES)))
        hbm_bytes, ddr_bytes, slack = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for kind, rank in enumerate(self._kinds):
            if rank.is_server != layout.on_server or layout.device not in (None, rank.device):
                continue
            charged = self._pricer.shards(layout, rank, data_type, table, shortest, columns)
            longest = charged if layout.row_blocks == 1 else self._pricer.shards(layout, rank, data_type, table, full, columns)
            time_us[:, :, kind] = charged.time_us
            hbm_bytes[:, :, kind], ddr_bytes[:, :, kind] = charged.hbm_bytes, charged.ddr_bytes
            slack[:, :, kind] = np.maximum(longest.hbm_bytes - charged.hbm_bytes, longest.ddr_bytes - charged.ddr_bytes)
        return _Block(index, table, time_us, hbm_bytes, ddr_bytes, slack.sum(axis=1).max(axis=1))


class _Options:
    """Blocks laid side by side, then ordered by table and layout."""

    def __init__(self, blocks: list[_Block], num_kinds: int) -> None:
        table = np.concatenate([np.empty(0, np.int64), *(block.table for block in blocks)])
        layout = np.concatenate([np.empty(0, np.int64), *(np.full(len(block.table), block.layout) for block in blocks)])
        units = np.concatenate([np.empty(0, np.int64), *(np.full(len(block.table), block.hbm_bytes.shape[1]) for block in blocks)])
        order = np.lexsort((layout, table))
        first_unit = np.append(0, np.cumsum(units[order]))
        starts = (np.cumsum(units) - units)[order]
        gather = np.repeat(starts - first_unit[:-1], units[order]) + np.arange(first_unit[-1])
        stages = len(PLACED_STAGES)
        times = [np.empty((0, num_kinds, stages)), *(block.time_us.reshape(-1, num_kinds, stages) for block in blocks)]
        none = np.empty((0, num_kinds), np.int64)
        self.arrays = OptionArrays(
            table=table[order],
            layout=layout[order],
            first_unit=first_unit,
            time_us=np.concatenate(times)[gather],
            hbm_bytes=np.concatenate([none, *(block.hbm_bytes.reshape(-1, num_kinds) for block in blocks)])[gather],
            ddr_bytes=np.concatenate([none, *(block.ddr_bytes.reshape(-1, num_kinds) for block in blocks)])[gather],
        )
        self.slack_bytes = self._slack(blocks)

    def _slack(self, blocks: list[_Block]) -> int:
        """Every table takes one option: the sum over tables of its largest slack."""
        largest = np.zeros(int(self.arrays.table.max(initial=-1)) + 1, np.int64)
        for block in blocks:
            np.maximum.at(largest, block.table, block.slack_bytes)
        return int(largest.sum())
