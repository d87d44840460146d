"""The tables of a plan as lists show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from emplace.app.dashboard.loaded import KEPT, LoadedPlan, TableFigures

_FEW = 8


@dataclass(frozen=True)
class TableLine:
    """`lookups_share` is of all lookups of a step, `time_share` of all time that tables take on their ranks together."""

    name: str
    rows: int
    dim: int
    data_type: str
    mean_length: float
    lookups: float
    lookups_share: float
    bytes: int
    time_us: float
    time_share: float
    sharding: str
    kernel: str
    cached: float | None
    ranks: str
    shards: int


@lru_cache(maxsize=KEPT)
def table_lines(loaded: LoadedPlan) -> tuple[TableLine, ...]:
    """In the order of the plan."""
    figures = loaded.tables
    lookups = sum(each.lookups for each in figures) or 1.0
    time_us = sum(each.time_us for each in figures) or 1.0
    return tuple(_line(each, each.lookups / lookups, each.time_us / time_us, len(loaded.plan.ranks)) for each in figures)


def _line(figures: TableFigures, lookups_share: float, time_share: float, num_ranks: int) -> TableLine:
    table, placement = figures.table, figures.placement
    return TableLine(
        name=table.name,
        rows=table.num_embeddings,
        dim=table.embedding_dim,
        data_type=table.data_type.value,
        mean_length=table.pooling_factor,
        lookups=figures.lookups,
        lookups_share=lookups_share,
        bytes=figures.bytes,
        time_us=figures.time_us,
        time_share=time_share,
        sharding=placement.sharding_type.value,
        kernel=placement.compute_kernel.value,
        cached=placement.cache_load_factor,
        ranks=_ranks(sorted({shard.rank for shard in placement.shards}), num_ranks),
        shards=len(placement.shards),
    )


def _ranks(ranks: Sequence[int], num_ranks: int) -> str:
    if len(ranks) == num_ranks and num_ranks > 2:
        return f"all {num_ranks}"
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks)) if len(ranks) <= _FEW else f"{len(ranks)} of {num_ranks}"
