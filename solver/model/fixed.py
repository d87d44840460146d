"""Tables whose placement is given: pinned by the user, or held where a plan to start from has them.

Nothing is left to choose, so their exact bytes are taken off the capacities, and their exact times stand in the program
as one table for each rank that they load, with that rank as its only place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise

import numpy as np

from emplace.placement.choice import choice_flaws
from emplace.placement.layout import layout_flaws
from emplace.placement.model import Pin, ShardingType, Table
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.topology import Topology
from emplace.solver.model.layouts import piece_widths

_Range = tuple[int, int]


@dataclass(frozen=True)
class Fixed:
    """Tables by index with their only placement (bytes of shards not filled in), and why some can't be placed so."""

    placements: dict[int, TablePlacement]
    conflicts: tuple[tuple[str, str], ...]
    """(table, why)"""


def fixed_tables(question: Question, topology: Topology, held: Mapping[str, TablePlacement]) -> Fixed:
    """Pinned tables and those of `held`; a pin goes before."""
    placements, conflicts = {}, []
    for index, table in enumerate(question.model.tables):
        if table.constraints.pin is not None:
            placement = _placement(table, table.constraints.pin, topology)
            if (why := misfit(question, table, placement, topology)) is not None:
                conflicts.append((table.name, f"can't be placed as it is pinned: {why}"))
            else:
                placements[index] = placement
        elif table.name in held:
            placements[index] = held[table.name]
    return Fixed(placements, (*conflicts, *_torn_groups(question, placements), *_met_groups(question, placements)))


def misfit(question: Question, table: Table, placement: TablePlacement, topology: Topology) -> str | None:
    """Why a table can't or may not be placed so here, capacities apart."""
    if findings := layout_flaws(table, placement, topology) or choice_flaws(question, table, placement, topology):
        return findings[0][1]
    if placement.sharding_type is ShardingType.TABLE_WISE or all(table.name not in group for group in question.model.together or ()):
        return None
    return f"{placement.sharding_type} can't be kept together with other tables: only table_wise can"


def _torn_groups(question: Question, placements: dict[int, TablePlacement]) -> Iterator[tuple[str, str]]:
    by_name = {placement.name: placement for placement in placements.values()}
    for group in question.model.together or ():
        ranks = {name: by_name[name].shards[0].rank for name in group if name in by_name}
        if len(set(ranks.values())) > 1:
            spelled = ", ".join(f"{name} to rank {rank}" for name, rank in ranks.items())
            yield " + ".join(group), f"must be together, but are pinned apart: {spelled}"


def _met_groups(question: Question, placements: dict[int, TablePlacement]) -> Iterator[tuple[str, str]]:
    ranks = {placement.name: {shard.rank for shard in placement.shards} for placement in placements.values()}
    for group in question.model.apart or ():
        for one, other in combinations([name for name in group if name in ranks], 2):
            if shared := sorted(ranks[one] & ranks[other]):
                yield f"{one} + {other}", f"must be apart, but both are pinned to rank {shared[0]}"


def _placement(table: Table, pin: Pin, topology: Topology) -> TablePlacement:
    ranks = list(pin.ranks) if pin.ranks is not None else [rank.rank for rank in topology.trainers]
    return TablePlacement(
        name=table.name,
        sharding_type=pin.sharding_type,
        compute_kernel=pin.kernel,
        cache_load_factor=pin.cache_load_factor,
        shards=tuple(
            sorted(
                (
                    Shard(rank=rank, rows=rows, columns=columns, hbm_bytes=0, ddr_bytes=0)
                    for rank, (rows, columns) in zip(ranks, _boxes(table, pin.sharding_type, len(ranks), topology), strict=False)
                ),
                key=lambda shard: (shard.rank, shard.rows, shard.columns),
            )
        ),
    )


def _boxes(table: Table, sharding_type: ShardingType, count: int, topology: Topology) -> list[tuple[_Range, _Range]]:
    """(rows, columns) of `count` shards, pieces of columns from left to right, in each the blocks of rows in order."""
    match sharding_type:
        case ShardingType.TABLE_WISE | ShardingType.DATA_PARALLEL:
            return [((0, table.num_embeddings), (0, table.embedding_dim))] * count
        case ShardingType.COLUMN_WISE | ShardingType.TABLE_COLUMN_WISE:
            pieces, blocks = count, 1
        case ShardingType.ROW_WISE | ShardingType.TABLE_ROW_WISE:
            pieces, blocks = 1, count
        case ShardingType.GRID_SHARD:
            blocks = topology.trainers_per_node
            pieces = max(count // blocks, 1)
    block = -(-table.num_embeddings // blocks)
    rows = [tuple(min(end, table.num_embeddings) for end in (index * block, (index + 1) * block)) for index in range(blocks)]
    widths = piece_widths(np.array([table.embedding_dim]), pieces)[0].tolist()
    return [((start, end), columns) for columns in pairwise(accumulate(widths, initial=0)) for start, end in rows]
