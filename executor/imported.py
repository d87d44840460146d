"""A TorchRec ShardingPlan made elsewhere, read from JSON: the reverse of executor.export. Imports no torch.

Only what decides the placement is read. Keys that change neither places nor bytes (stochastic_rounding, bounds_check_mode,
output_dtype, enforce_hbm, the cache's algorithm and precision) are passed over; docs/how-to/torchrec.md says how to write such a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import ConfigDict, Field

from emplace.executor.live_names import long_name, spelt, spelt_path
from emplace.placement.choice import choice_flaws
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import MAX_RANKS
from emplace.placement.layout import layout_flaws
from emplace.placement.messages import spelled
from emplace.placement.model import ComputeKernel, ShardingType, Table
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.pointer import pointer_to
from emplace.placement.topology import Topology

DEFAULT_LOAD_FACTOR = 0.2
"""FBGEMM's load factor of a cache where none is given (SplitTableBatchedEmbeddingBagsCodegen)."""

COLUMN_SPLIT = (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE)

_RANK = re.compile(r"rank:(\d+)(/.*)?")

Offset = Annotated[int, Field(strict=True, ge=0)]
NumRanks = Annotated[int, Field(strict=True, gt=0, le=MAX_RANKS)]


class _Foreign(Document):
    """A document of another program, which may say more than matters here: unknown keys are passed over."""

    model_config = ConfigDict(extra="ignore")


class TheirShard(_Foreign):
    """torch's ShardMetadata: (row, column) where the shard starts, and how many of each it has."""

    shard_offsets: tuple[Offset, Offset]
    shard_sizes: tuple[Offset, Offset]
    placement: str | None = None


class TheirShardingSpec(_Foreign):
    shards: tuple[TheirShard, ...]


class TheirCache(_Foreign):
    load_factor: Annotated[float, Field(gt=0, le=1)] | None = None


class TheirSharding(_Foreign):
    """TorchRec's ParameterSharding."""

    sharding_type: ShardingType
    compute_kernel: ComputeKernel
    ranks: tuple[Offset, ...] | None = None
    sharding_spec: TheirShardingSpec | None = None
    cache_params: TheirCache | None = None


class TheirPlan(_Foreign):
    """TorchRec's ShardingPlan: shardings by module path and table name; and how many ranks it is for, where the file says."""

    world_size: NumRanks | None = None
    local_world_size: NumRanks | None = None
    plan: dict[str, dict[str, TheirSharding]]


def placements(theirs: TheirPlan, source: str, question: Question, topology: Topology) -> tuple[TablePlacement, ...]:
    """Every table of the question's model where `theirs` puts it, in the model's order; bytes are 0 until priced.

    Raises InvalidDocument naming every table that is missing, unknown, placed twice, not whole, or can't run where it is put.
    """
    tables = {table.name: table for table in question.model.tables}
    found: dict[str, TablePlacement] = {}
    broken: list[BrokenRule] = []
    for where, module, their_name, sharding in _named(theirs):
        table = tables.get(long_name(module, their_name)) or tables.get(spelt(their_name))
        if table is None:
            broken.append(BrokenRule(where, "", f"the model {question.model.name} has no table {their_name}"))
            continue
        name = table.name
        if question.model.modules and (path := question.model.module_of(table).path) != spelt_path(module):
            broken.append(BrokenRule(where, "", f"the model has the table {name} in its module {path}"))
            continue
        if name in found:
            broken.append(BrokenRule(where, "", f"the table {name} is placed twice"))
            continue
        shards = list(_shards(where, source, sharding, table, topology))
        found[name] = placement = TablePlacement(
            name=name,
            sharding_type=sharding.sharding_type,
            compute_kernel=sharding.compute_kernel,
            cache_load_factor=_load_factor(sharding),
            shards=tuple(_joined(sharding.sharding_type, shards)),
        )
        broken += _contradicted(where, sharding, shards)
        flaws = layout_flaws(table, placement, topology) or choice_flaws(question, table, placement, topology)
        broken += [BrokenRule(where, "", what) for _, what in flaws]
    broken += [BrokenRule("/plan", "", f"does not place the table {name}") for name in tables if name not in found]
    if broken:
        raise InvalidDocument(source, broken)
    return tuple(found[name] for name in tables)


def _named(theirs: TheirPlan) -> Iterator[tuple[str, str, str, TheirSharding]]:
    """(JSON pointer, module path, table, sharding) of every table in every module."""
    for path, module in theirs.plan.items():
        for name, sharding in module.items():
            yield pointer_to("plan", path, name), path, name, sharding


def _load_factor(sharding: TheirSharding) -> float | None:
    if sharding.compute_kernel is not ComputeKernel.FUSED_UVM_CACHING:
        return None
    cache = sharding.cache_params or TheirCache()
    return DEFAULT_LOAD_FACTOR if cache.load_factor is None else cache.load_factor


def _shards(where: str, source: str, sharding: TheirSharding, table: Table, topology: Topology) -> Iterator[Shard]:
    if sharding.sharding_type is ShardingType.DATA_PARALLEL:
        for trainer in topology.trainers:
            yield _shard(trainer.rank, (0, table.num_embeddings), (0, table.embedding_dim))
        return
    if sharding.sharding_spec is None:
        raise InvalidDocument(source, [BrokenRule(f"{where}/sharding_spec", "", f"is required of {sharding.sharding_type}")])
    for index, shard in enumerate(sharding.sharding_spec.shards):
        (row, column), (rows, columns) = shard.shard_offsets, shard.shard_sizes
        rank = _rank(f"{where}/sharding_spec/shards/{index}/placement", source, shard.placement)
        yield _shard(rank, (row, row + rows), (column, column + columns))


def _contradicted(where: str, sharding: TheirSharding, shards: list[Shard]) -> list[BrokenRule]:
    """Where `ranks`, by which TorchRec goes, are others than the shards'. It looks at no ranks of what is data parallel."""
    ranks = [shard.rank for shard in shards]
    if sharding.ranks is None or sharding.sharding_type is ShardingType.DATA_PARALLEL or list(sharding.ranks) == ranks:
        return []
    rule = f"must be {spelled(ranks)}, as the placements of its shards say; correct one or the other, or leave ranks out"
    return [BrokenRule(f"{where}/ranks", spelled(list(sharding.ranks)), rule)]


def _joined(kind: ShardingType, shards: list[Shard]) -> Iterator[Shard]:
    """The shards, where pieces of columns that lie side by side on one rank are one: TorchRec's planner may cut finer than it spreads."""
    if kind not in COLUMN_SPLIT or not shards:
        yield from shards
        return
    last, *others = sorted(shards, key=lambda shard: shard.columns)
    for shard in others:
        if (shard.rank, shard.rows, shard.columns[0]) == (last.rank, last.rows, last.columns[1]):
            last = last.model_copy(update={"columns": (last.columns[0], shard.columns[1])})
        else:
            yield last
            last = shard
    yield last


def _shard(rank: int, rows: tuple[int, int], columns: tuple[int, int]) -> Shard:
    return Shard(rank=rank, rows=rows, columns=columns, hbm_bytes=0, ddr_bytes=0)


def _rank(where: str, source: str, placement: str | None) -> int:
    found = _RANK.fullmatch(placement or "")
    if found is None:
        raise InvalidDocument(source, [BrokenRule(where, repr(placement), "must name a rank, such as 'rank:3/cuda:3'")])
    return int(found[1])
