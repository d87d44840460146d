"""The ways a table may be placed on a target: sharding type x compute kernel x column pieces x cache load factor.

A `Layout` is one such way, the same for every table it is open to, so that pricing works on whole columns of tables.
docs/explanation/formulation.md says which layouts are offered and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from emplace.placement.access import Access, access_distribution
from emplace.placement.choice import table_refusal
from emplace.placement.cost_model import CostModel
from emplace.placement.host import DeviceType
from emplace.placement.layout import COLUMN_MULTIPLE
from emplace.placement.model import ComputeKernel, Constraints, ModelSpec, Optimizer, ShardingType, Table, Tier
from emplace.placement.modules import pieces_of
from emplace.placement.topology import Rank, Topology
from emplace.solver.model.problem import Bools, Floats, Ints, Scope

MAX_SHORTAGE = 1 / 500
"""Row-split layouts are offered where the last block is at most this share shorter than the others, because the program
charges every rank the shortest block."""
MIN_PIECE_COLUMNS = 16
"""Narrower pieces than 64 bytes of fp32 pay a memory access of that size all the same."""
CACHE_HITS = np.array([*np.arange(1, 12) / 12, 23 / 24, 47 / 48, 95 / 96, 191 / 192])
"""Cache load factors offered per table: those that reach these shares of its lookups. Misses are dear, so the last steps are small."""
CACHE_STEPS = len(CACHE_HITS)


@dataclass(frozen=True)
class Layout:
    """One way to place a table: cut into `pieces` ranges of columns, which take a target each.

    On a target of several ranks each holds `1 / row_blocks` of the rows and `1 / column_blocks` of the piece's columns.
    """

    sharding_type: ShardingType
    kernel: ComputeKernel
    scope: Scope
    device: str | None
    """The kind of device for scope DEVICE."""
    on_server: bool
    pieces: int
    row_blocks: int
    column_blocks: int
    cache_step: int | None
    """Index of the load factor, for fused_uvm_caching."""
    tiers: frozenset[Tier]
    """Every tier that it uses."""


WHOLE = {ShardingType.COLUMN_WISE: ShardingType.TABLE_WISE, ShardingType.GRID_SHARD: ShardingType.TABLE_ROW_WISE}
"""What a table in one piece is called where it may be."""


@dataclass(frozen=True)
class _Kernel:
    kernel: ComputeKernel
    cache_step: int | None
    tiers: frozenset[Tier]


_CUDA_KERNELS = (
    _Kernel(ComputeKernel.FUSED, None, frozenset({Tier.HBM})),
    _Kernel(ComputeKernel.FUSED_UVM, None, frozenset({Tier.DDR})),
    *(_Kernel(ComputeKernel.FUSED_UVM_CACHING, step, frozenset({Tier.HBM, Tier.DDR})) for step in range(CACHE_STEPS)),
)


def layouts(topology: Topology, cost: CostModel, model: ModelSpec, tiers: frozenset[Tier]) -> list[Layout]:
    """Every layout that the target can run within `tiers`.

    With servers in the topology only table_wise and column_wise are offered: TorchRec spreads the other types over
    every rank of the process group, servers included.
    """
    found: list[Layout] = []
    optimizer = model.optimizer
    wanted = {pieces for table in model.tables if (pieces := pieces_of(model, table)) is not None}
    for rank, count in _kinds(topology):
        kernels = _kernels(rank, cost, optimizer, tiers)
        found += _device_layouts(ShardingType.TABLE_WISE, rank, kernels, [1])
        found += _device_layouts(
            ShardingType.COLUMN_WISE, rank, kernels, sorted({*_piece_counts(count), *(each for each in wanted if each <= count)})
        )
    if not topology.servers:
        found += _spread_layouts(topology, cost, optimizer, tiers)
    return found


def _kinds(topology: Topology) -> Iterator[tuple[Rank, int]]:
    """One rank of every kind of device, trainers first, and how many there are."""
    for ranks in (topology.trainers, topology.servers):
        for kind in dict.fromkeys(rank.device for rank in ranks):
            alike = [rank for rank in ranks if rank.device == kind]
            yield alike[0], len(alike)


def _piece_counts(most: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... up to `most`: powers of two, and half as many again."""
    return sorted(number for power in range(most.bit_length()) for number in {2**power, 3 * 2**power // 2} if number <= most)


def trains_fused(device: DeviceType, optimizer: Optimizer) -> bool:
    """FBGEMM has no fused Adam on CPU devices."""
    return device is not DeviceType.CPU or optimizer is not Optimizer.ADAM


def _kernels(rank: Rank, cost: CostModel, optimizer: Optimizer, tiers: frozenset[Tier]) -> list[_Kernel]:
    """The fused kernels that the device runs, the cost model knows and the tiers allow."""
    if not trains_fused(rank.type, optimizer):
        return []
    if rank.serves is not None:
        offered: tuple[_Kernel, ...] = (_Kernel(ComputeKernel.FUSED, None, frozenset({rank.serves})),)
    elif rank.type is DeviceType.CPU:
        offered = (_Kernel(ComputeKernel.FUSED, None, frozenset({Tier.DDR})),)
    else:
        offered = _CUDA_KERNELS
    return [kernel for kernel in offered if kernel.tiers <= tiers and all(cost.kernel(rank.device, part) for part in _parts(kernel.kernel))]


def _parts(kernel: ComputeKernel) -> tuple[ComputeKernel, ...]:
    """The kernels whose measured costs make up this one's."""
    return (ComputeKernel.FUSED, ComputeKernel.FUSED_UVM) if kernel is ComputeKernel.FUSED_UVM_CACHING else (kernel,)


def _device_layouts(sharding_type: ShardingType, rank: Rank, kernels: list[_Kernel], pieces: list[int]) -> list[Layout]:
    return [
        Layout(sharding_type, kernel.kernel, Scope.DEVICE, rank.device, rank.is_server, count, 1, 1, kernel.cache_step, kernel.tiers)
        for count in pieces
        for kernel in kernels
    ]


def _spread_layouts(topology: Topology, cost: CostModel, optimizer: Optimizer, tiers: frozenset[Tier]) -> list[Layout]:
    """The layouts over all trainers or all trainers of a node; every kind of device among them must run the kernel."""
    kinds = [rank for rank, _ in _kinds(topology)]
    shared = _shared_kernels([_kernels(rank, cost, optimizer, tiers) for rank in kinds])
    world, local, nodes = len(topology.trainers), topology.trainers_per_node, topology.trainer_nodes
    found: list[Layout] = []
    for kernel in shared:
        for sharding_type, scope, pieces, row_blocks, column_blocks in (
            (ShardingType.ROW_WISE, Scope.WORLD, 1, world, 1),
            (ShardingType.TABLE_ROW_WISE, Scope.NODE, 1, local, 1),
            *([(ShardingType.TABLE_COLUMN_WISE, Scope.NODE, 1, 1, local)] if local > 1 else []),
            *((ShardingType.GRID_SHARD, Scope.NODE, count, local, 1) for count in _piece_counts(nodes)),
        ):
            blocks = (pieces, row_blocks, column_blocks)
            found.append(Layout(sharding_type, kernel.kernel, scope, None, False, *blocks, kernel.cache_step, kernel.tiers))
    tiers_of_replicas = frozenset(Tier.HBM if rank.type is DeviceType.CUDA else Tier.DDR for rank in kinds)
    if tiers_of_replicas <= tiers and all(cost.kernel(rank.device, ComputeKernel.DENSE) for rank in kinds):
        found.append(Layout(ShardingType.DATA_PARALLEL, ComputeKernel.DENSE, Scope.WORLD, None, False, 1, 1, 1, None, tiers_of_replicas))
    return found


def _shared_kernels(per_kind: list[list[_Kernel]]) -> list[_Kernel]:
    """Kernels that every kind offers, with the tiers of all of them."""
    by_name = [{(kernel.kernel, kernel.cache_step): kernel for kernel in kernels} for kernels in per_kind]
    return [
        _Kernel(*name, frozenset().union(*(kernels[name].tiers for kernels in by_name)))
        for name in by_name[0]
        if all(name in kernels for kernels in by_name)
    ]


@dataclass(frozen=True)
class TableColumns:
    """What decides which layouts a table is open to, for all tables at once."""

    rows: Ints
    """[T]"""
    columns: Ints
    """[T]"""
    trains_dense: Bools
    """[T] whether all trainers have a dense kernel for it."""
    constraints: tuple[Constraints, ...]
    """The different limits of tables: their constraints, and what their modules can do."""
    constraint: Ints
    """[T] index into `constraints`."""
    pieces: Ints
    """[T] in how many a table is where it is column_wise; 0 where any number will do."""
    named: Bools
    """[T] whether the user names the sharding types: then anything that runs is offered."""
    load_factors: Floats
    """[T, CACHE_STEPS] rising; repeated where a step adds no row."""
    hit_rates: Floats
    """[T, CACHE_STEPS]"""


def table_columns(model: ModelSpec, topology: Topology) -> TableColumns:
    """The tables of a model, in its order."""
    trainers = list({rank.type: rank for rank in topology.trainers}.values())
    limits = [model.limits(table) for table in model.tables]
    different = {constraints: index for index, constraints in enumerate(dict.fromkeys(limits))}
    steps = [_cache_steps(table.access, table.num_embeddings) for table in model.tables]
    return TableColumns(
        rows=np.array([table.num_embeddings for table in model.tables]),
        columns=np.array([table.embedding_dim for table in model.tables]),
        trains_dense=np.array([_trains_dense(model, table, trainers) for table in model.tables]),
        constraints=tuple(different),
        constraint=np.array([different[each] for each in limits]),
        pieces=np.array([pieces_of(model, table) or 0 for table in model.tables]),
        named=np.array([table.constraints.sharding_types is not None for table in model.tables]),
        load_factors=np.array([step[0] for step in steps]),
        hit_rates=np.array([step[1] for step in steps]),
    )


def _trains_dense(model: ModelSpec, table: Table, trainers: list[Rank]) -> bool:
    return all(table_refusal(ComputeKernel.DENSE, rank, model, table) is None for rank in trainers)


@lru_cache(maxsize=20_000)
def _cache_steps(access: Access, num_rows: int) -> tuple[Floats, Floats]:
    """Load factors whose caches take CACHE_HITS of the lookups, to six digits, and the share they take."""
    spread = access_distribution(access, num_rows)
    row_ends, mass_ends = np.append(0.0, np.cumsum(spread.rows)), np.append(0.0, np.cumsum(spread.mass))
    shares = np.interp(CACHE_HITS, mass_ends, row_ends) / spread.rows.sum()
    factors = np.array([float(f"{max(share, 1.0 / num_rows):.6g}") for share in shares])
    return factors, spread.hit_rate(factors)


def open_to(layout: Layout, tables: TableColumns) -> Bools:
    """[T] the tables that a layout is open to, capacities apart."""
    allowed = np.array([permits(constraints, layout) for constraints in tables.constraints])
    is_open = allowed[tables.constraint]
    if layout.pieces == 1 and (whole := WHOLE.get(layout.sharding_type)) is not None:
        # In one piece only where the type is named and the one for whole tables is not.
        is_open &= np.array([whole not in (each.sharding_types or ShardingType) for each in tables.constraints])[tables.constraint]
    if layout.pieces * layout.column_blocks > 1:
        narrowest = np.where(tables.named | (tables.pieces > 0), COLUMN_MULTIPLE, MIN_PIECE_COLUMNS)
        is_open &= tables.columns >= layout.pieces * layout.column_blocks * narrowest
    is_open &= has_its_pieces(layout, tables)
    if layout.column_blocks > 1:
        # Every rank of a target carries the same load, so its columns must divide evenly.
        is_open &= tables.columns % (layout.column_blocks * COLUMN_MULTIPLE) == 0
    if layout.row_blocks > 1:
        # TorchRec's blocks are ceil(rows / ranks) long; the last rank must get at least one row.
        block = -(-tables.rows // layout.row_blocks)
        last = tables.rows - block * (layout.row_blocks - 1)
        is_open &= (last > 0) & (tables.named | (block - last <= MAX_SHORTAGE * block))
    if layout.sharding_type is ShardingType.DATA_PARALLEL:
        is_open &= tables.trains_dense
    if layout.cache_step is not None:
        factors = tables.load_factors
        is_open &= factors[:, layout.cache_step] < 1
        if layout.cache_step:
            is_open &= factors[:, layout.cache_step] > factors[:, layout.cache_step - 1]
    return np.asarray(is_open)


def has_its_pieces(layout: Layout, tables: TableColumns) -> Bools:
    """[T] the tables that may be in as many pieces as the layout has."""
    if layout.sharding_type is not ShardingType.COLUMN_WISE:
        return np.ones(len(tables.pieces), dtype=bool)
    return np.asarray((tables.pieces == 0) | (tables.pieces == layout.pieces))


def permits(constraints: Constraints, layout: Layout) -> bool:
    """What the user allows."""
    return (
        (constraints.tiers is None or layout.tiers <= set(constraints.tiers))
        and (constraints.compute_kernels is None or layout.kernel in constraints.compute_kernels)
        and (constraints.sharding_types is None or layout.sharding_type in constraints.sharding_types)
    )


def piece_widths(columns: Ints, pieces: int) -> Ints:
    """[T, pieces] widths of a table's column pieces: multiples of 4, as even as possible, wider ones first."""
    fours = columns[:, None] // COLUMN_MULTIPLE
    return np.asarray(COLUMN_MULTIPLE * (fours // pieces + (np.arange(pieces)[None, :] < fours % pieces)))


def load_factor(tables: TableColumns, layout: Layout, table: int) -> float | None:
    """The cache load factor of one table under a layout."""
    return None if layout.cache_step is None else float(tables.load_factors[table, layout.cache_step])


def allowed_ranks(tables: tuple[Table, ...], num_ranks: int) -> Bools | None:
    """[T, ranks] where each table may sit; None when no table says."""
    if all(table.constraints.ranks is None for table in tables):
        return None
    allowed = np.ones((len(tables), num_ranks), dtype=bool)
    for row, table in zip(allowed, tables, strict=True):
        if table.constraints.ranks is not None:
            row[:] = np.isin(np.arange(num_ranks), table.constraints.ranks)
    return allowed
