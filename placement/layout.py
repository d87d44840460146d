"""What a sharding type demands of a table's shards: how many, which rows and columns, on which ranks.

The rules are those of TorchRec 1.8 (torchrec/distributed/sharding_plan.py, torchrec/distributed/sharding/), tightened where
it would run and be wrong: rows are split in blocks of ceil(rows / ranks), in rank order, because its input distribution
sends an id to rank id // block whatever the shards say; a block past the last row is empty and still listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from emplace.placement.model import ShardingType, Table
from emplace.placement.plan import Shard, TablePlacement
from emplace.placement.topology import Rank, Topology

COLUMN_MULTIPLE = 4
"""FBGEMM: the width of every shard must be divisible by 4."""

Flaw = tuple[str, str]
"""A JSON pointer below the table's placement, and what is wrong there."""

_SPLITS_ROWS = (ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD)
_SPLITS_COLUMNS = (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD)
BESIDE_SERVERS = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE)
"""TorchRec spreads the other types over every rank of a job or node alike, and a server feeds an empty batch."""


def layout_flaws(table: Table, placement: TablePlacement, topology: Topology) -> list[Flaw]:
    """Every way in which the shards don't hold each row and column exactly once, or not where the sharding type wants them."""
    flaws = list(_boxes(table, placement.shards, topology))
    if flaws:
        return flaws
    ranks = [topology.ranks[shard.rank] for shard in placement.shards]
    kind = placement.sharding_type
    if topology.servers and kind not in BESIDE_SERVERS:
        flaws.append(("/sharding_type", f"{kind} can't be in a job with servers; {' and '.join(BESIDE_SERVERS)} can"))
    if kind is ShardingType.DATA_PARALLEL:
        return flaws + list(_data_parallel(table, placement.shards, topology))
    flaws += [*_coverage(table, placement.shards), *_places(kind, ranks)]
    if kind in _SPLITS_ROWS:
        flaws += _row_splits(kind, table, placement.shards, topology)
    elif any(shard.rows != (0, table.num_embeddings) for shard in placement.shards):
        flaws.append(("/shards", f"{kind} does not split rows, so every shard must hold all {table.num_embeddings} rows"))
    if kind not in _SPLITS_COLUMNS and any(shard.columns != (0, table.embedding_dim) for shard in placement.shards):
        flaws.append(("/shards", f"{kind} does not split columns, so every shard must hold all {table.embedding_dim} columns"))
    return flaws


def _boxes(table: Table, shards: Sequence[Shard], topology: Topology) -> Iterator[Flaw]:
    """Each shard by itself: it must be on a rank of the job, within the table, and of a width that FBGEMM takes."""
    if not shards:
        yield "/shards", "has no shard, so none of its rows is anywhere"
    for index, shard in enumerate(shards):
        where = f"/shards/{index}"
        if shard.rank >= len(topology.ranks):
            yield f"{where}/rank", f"there is no rank {shard.rank}: the job has ranks 0..{len(topology.ranks) - 1}"
        if not 0 <= shard.rows[0] <= shard.rows[1] <= table.num_embeddings:
            yield f"{where}/rows", f"{list(shard.rows)} is not a range within the table's {table.num_embeddings} rows"
        if not 0 <= shard.columns[0] < shard.columns[1] <= table.embedding_dim:
            yield f"{where}/columns", f"{list(shard.columns)} is not a range within the table's {table.embedding_dim} columns"
        elif (shard.columns[1] - shard.columns[0]) % COLUMN_MULTIPLE:
            yield f"{where}/columns", f"{shard.columns[1] - shard.columns[0]} columns are not divisible by {COLUMN_MULTIPLE}"


def _data_parallel(table: Table, shards: Sequence[Shard], topology: Topology) -> Iterator[Flaw]:
    for index, shard in enumerate(shards):
        if shard.rows != (0, table.num_embeddings) or shard.columns != (0, table.embedding_dim):
            yield f"/shards/{index}", "data_parallel keeps the whole table on every trainer, this is a part of it"
    wanted, held = [rank.rank for rank in topology.trainers], [shard.rank for shard in shards]
    if held != wanted:
        missing, extra = sorted(set(wanted) - set(held)), sorted(set(held) - set(wanted))
        repeated = _repeated(held)
        yield (
            "/shards",
            "data_parallel needs one copy on each trainer, in rank order"
            + (f"; missing on ranks {_some(missing)}" if missing else "")
            + (f"; not trainers: ranks {_some(extra)}" if extra else "")
            + (f"; twice on ranks {_some(repeated)}" if repeated else ""),
        )


def _coverage(table: Table, shards: Sequence[Shard]) -> Iterator[Flaw]:
    """The shards must form a grid: equal column pieces side by side, each with its rows end to end."""
    pieces = sorted({shard.columns for shard in shards})
    yield from _gaps("columns", pieces, table.embedding_dim)
    for piece in pieces:
        rows = sorted(shard.rows for shard in shards if shard.columns == piece)
        for where, what in _gaps("rows", rows, table.num_embeddings):
            yield where, f"{what} (columns {list(piece)})"


def _gaps(what: str, ranges: list[tuple[int, int]], end: int) -> Iterator[Flaw]:
    """Sorted ranges must lie end to end from 0 to `end`."""
    for before, after in pairwise([(0, 0), *ranges, (end, end)]):
        if after[0] > before[1]:
            yield "/shards", f"{what} {before[1]}..{after[0]} are in no shard"
        elif after[0] < before[1]:
            yield "/shards", f"{what} {after[0]}..{min(before[1], max(after[1], after[0] + 1))} are in more than one shard"


def _row_splits(kind: ShardingType, table: Table, shards: Sequence[Shard], topology: Topology) -> Iterator[Flaw]:
    """Each column piece lies on all trainers (row_wise) or all of one node, in rank order, in blocks of ceil(rows / ranks)."""
    pieces = sorted({shard.columns for shard in shards})
    for piece in pieces:
        part = [shard for shard in shards if shard.columns == piece]
        held = [shard.rank for shard in part]
        node = topology.ranks[held[0]].node
        wanted = [rank.rank for rank in topology.trainers if kind is ShardingType.ROW_WISE or rank.node == node]
        if held != wanted:
            scope = "every trainer" if kind is ShardingType.ROW_WISE else f"every rank of node {node}"
            yield "/shards", f"{kind} needs one block of rows on {scope}, in rank order: ranks {_some(wanted)}, it has {_some(held)}"
            continue
        block = -(-table.num_embeddings // len(wanted))
        for index, shard in enumerate(part):
            rows = tuple(min(bound, table.num_embeddings) for bound in (index * block, (index + 1) * block))
            if shard.rows != rows:
                where = f"/shards/{shards.index(shard)}/rows"
                yield where, f"{list(shard.rows)} must be {list(rows)}: {len(wanted)} even blocks of ceil(rows / ranks) = {block}"


def _places(kind: ShardingType, ranks: list[Rank]) -> Iterator[Flaw]:
    """The shards' ranks must be those that the sharding type can be on."""
    numbers, nodes = [rank.rank for rank in ranks], sorted({rank.node for rank in ranks})
    if len({rank.is_server for rank in ranks}) > 1:
        yield "/shards", "lies on trainers and on servers at once; a table must be on one or the other"
    if len(set(numbers)) != len(numbers):
        yield "/shards", f"each shard needs a rank of its own, ranks {_some(_repeated(numbers))} have several"
    if kind is ShardingType.TABLE_WISE and len(ranks) != 1:
        yield "/shards", f"table_wise has one shard, here are {len(ranks)}"
    if kind in (ShardingType.TABLE_COLUMN_WISE, ShardingType.TABLE_ROW_WISE) and len(nodes) > 1:
        yield "/shards", f"{kind} keeps a table on one node, here are nodes {_some(nodes)}"


def _repeated(numbers: list[int]) -> list[int]:
    return sorted(number for number, count in Counter(numbers).items() if count > 1)


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return shown + (", ..." if len(numbers) > 8 else "")
