"""From options that say where everything lies to placements of tables; what is left of memory goes to their caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from emplace.placement.model import ComputeKernel, ShardingType, Table
from emplace.placement.plan import Shard, TablePlacement
from emplace.placement.topology import Topology
from emplace.solver.model.cache_points import cache_edges
from emplace.solver.model.concrete import SPLITS_COLUMNS_ALONE, block_of
from emplace.solver.model.costing import RankLoads
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.layouts import Layout
from emplace.solver.model.priced import PricedQuestion, type_cost_us
from emplace.solver.model.problem import Assignment, Ints


def concrete_tables(priced: PricedQuestion, assignment: Assignment) -> dict[int, TablePlacement]:
    """The placements that the options of a small question stand for, by table; bytes of shards are not filled in."""
    assert priced.columns is not None
    placed, edges = {}, {}
    for index, item in enumerate(priced.items):
        option = int(assignment.option[index])
        for table, layout, columns in zip(item, priced.layouts_of(option), priced.columns[option], strict=True):
            spec = priced.question.model.tables[table]
            if layout.cache_step is not None:
                factors, _ = cache_edges(spec.access, spec.num_embeddings)
                edges[table] = float(factors[layout.cache_step]), float(factors[layout.cache_step + 1])
            placed[table] = _placement(spec, layout, edges.get(table, (None,))[0], columns, priced.topology)
    placed = _plainly(priced, placed)
    for most in ({table: edge[1] for table, edge in edges.items()}, dict.fromkeys(edges, 1.0)):
        for table in edges:
            placed[table] = _with_larger_cache(priced, placed, table, most[table])
    return placed


def may_be_table_wise(priced: PricedQuestion, pieces: Mapping[int, int]) -> bool:
    """Whether tables that are column_wise in so many pieces (by table) may be called table_wise, all of them: they are whole, their
    constraints allow it, no pinned table is column_wise, and the name costs no more."""
    model = priced.question.model
    limits = [model.limits(model.tables[table]).sharding_types for table in pieces]
    is_open = all(types is None or ShardingType.TABLE_WISE in types for types in limits)
    pinned = any(placement.sharding_type is ShardingType.COLUMN_WISE for placement in priced.fixed.placements.values())
    whole_us, columns_us = (float(type_cost_us(priced, kind).sum()) for kind in (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE))
    return all(count == 1 for count in pieces.values()) and is_open and not pinned and whole_us <= columns_us


def _placement(table: Table, layout: Layout, factor: float | None, columns: Ints, topology: Topology) -> TablePlacement:
    return TablePlacement(
        name=table.name,
        sharding_type=layout.sharding_type,
        compute_kernel=layout.kernel,
        cache_load_factor=factor,
        shards=tuple(_shards(table, layout.sharding_type, columns, topology)),
    )


def _shards(table: Table, kind: ShardingType, columns: Ints, topology: Topology) -> Iterator[Shard]:
    """Pieces of columns from left to right in the order of ranks; those of a grid in the order of nodes."""
    start, piece, node = 0, 0, -1
    for rank in (each for each in topology.ranks if columns[each.rank]):
        if kind in SPLITS_COLUMNS_ALONE or (kind is ShardingType.GRID_SHARD and rank.node != node):
            start, piece, node = start + piece, int(columns[rank.rank]), rank.node
        rows = block_of(kind, table.num_embeddings, rank.rank, topology)
        yield Shard(rank=rank.rank, rows=rows, columns=(start, start + int(columns[rank.rank])), hbm_bytes=0, ddr_bytes=0)


def _plainly(priced: PricedQuestion, placed: dict[int, TablePlacement]) -> dict[int, TablePlacement]:
    """With whole tables as table_wise, where all that are column_wise may be called that."""
    columns = {table: placement for table, placement in placed.items() if placement.sharding_type is ShardingType.COLUMN_WISE}
    if not may_be_table_wise(priced, {table: len(placement.shards) for table, placement in columns.items()}):
        return placed
    return placed | {table: each.model_copy(update={"sharding_type": ShardingType.TABLE_WISE}) for table, each in columns.items()}


def _with_larger_cache(priced: PricedQuestion, placed: dict[int, TablePlacement], table: int, most: float) -> TablePlacement:
    """With the largest load factor up to `most` that fits beside the other tables, if that is no slower."""
    now, rows = placed[table], priced.question.model.tables[table].num_embeddings
    assert now.compute_kernel is ComputeKernel.FUSED_UVM_CACHING
    assert now.cache_load_factor is not None
    others = _load(priced, {other: each for other, each in placed.items() if other != table})

    def cached(slots: int) -> TablePlacement:
        # In the middle of a slot: so many rows are cached whatever rounding does.
        return now.model_copy(update={"cache_load_factor": 1.0 if slots == rows else (slots - 0.5) / rows})

    def fits(placement: TablePlacement) -> bool:
        load = _load(priced, {table: placement})
        return bool((others.hbm_bytes + load.hbm_bytes <= priced.problem.hbm_capacity).all())

    least, beyond = int(np.ceil(rows * now.cache_load_factor)), int(np.floor(rows * most)) + 1
    while beyond - least > 1:
        middle = (least + beyond) // 2
        least, beyond = (middle, beyond) if fits(cached(middle)) else (least, middle)
    larger = cached(least)
    before, after = (_load(priced, {table: each}).time_us.sum() for each in (now, larger))
    return larger if fits(larger) and after <= before else now


def _load(priced: PricedQuestion, placed: dict[int, TablePlacement]) -> RankLoads:
    return priced.pricer.fixed_load(Fixed(placed, ()))
