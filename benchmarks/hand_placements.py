"""Placements of single tables as people write them, and the plan that they add up to."""

from __future__ import annotations

from importlib.metadata import version

from emplace.placement.derived_plan import derive_plan
from emplace.placement.model import ComputeKernel, ShardingType, Table
from emplace.placement.plan import Plan, Question, Shard, SolverRecord, StoppedBy, TablePlacement

Placements = tuple[TablePlacement, ...]


def plan_by_hand(question: Question, placements: Placements) -> Plan:
    """The plan of these placements, all tables of the model in its order, with what it holds and takes; nothing is proven of it."""
    options = question.options
    kind, limit = next(iter(options.limits.items()))
    record = SolverRecord(
        seconds=0.0,
        seed=options.seed,
        limit=limit,
        limit_kind=kind,
        stopped_by=StoppedBy.WORK,
        bound="none",
        version=version("emplace"),
    )
    return derive_plan(question, placements, question.topology(with_servers=False), record)


def whole_table(table: Table, rank: int) -> TablePlacement:
    return _placement(table, ShardingType.TABLE_WISE, [(rank, (0, table.num_embeddings), (0, table.embedding_dim))])


def column_pieces(table: Table, ranks: list[int], kind: ShardingType = ShardingType.COLUMN_WISE) -> TablePlacement:
    """Equal pieces, as many as the width allows; a multiple of 4 columns each."""
    pieces = max(count for count in range(1, len(ranks) + 1) if table.embedding_dim % (4 * count) == 0)
    width = table.embedding_dim // pieces
    return _placement(table, kind, [(ranks[n], (0, table.num_embeddings), (n * width, (n + 1) * width)) for n in range(pieces)])


def row_blocks(table: Table, ranks: int, kind: ShardingType) -> TablePlacement:
    """Blocks of ceil(rows / ranks), the last ones shorter or empty."""
    size, rows = -(-table.num_embeddings // ranks), table.num_embeddings
    columns = (0, table.embedding_dim)
    return _placement(table, kind, [(n, (min(n * size, rows), min((n + 1) * size, rows)), columns) for n in range(ranks)])


def replicas(table: Table, ranks: int) -> TablePlacement:
    whole = (0, table.num_embeddings), (0, table.embedding_dim)
    return _placement(table, ShardingType.DATA_PARALLEL, [(rank, *whole) for rank in range(ranks)], ComputeKernel.DENSE)


def _placement(
    table: Table,
    kind: ShardingType,
    parts: list[tuple[int, tuple[int, int], tuple[int, int]]],
    kernel: ComputeKernel = ComputeKernel.FUSED,
) -> TablePlacement:
    shards = tuple(Shard(rank=rank, rows=rows, columns=columns, hbm_bytes=0, ddr_bytes=0) for rank, rows, columns in parts)
    return TablePlacement(name=table.name, sharding_type=kind, compute_kernel=kernel, shards=shards)
