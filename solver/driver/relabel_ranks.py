"""The same plan with its ranks renamed, so that as many bytes as possible are where they should be already.

Nodes are alike, and so are the devices of one kind on a node: exchanging them changes no load but those of the last, shorter
block of a table that is split by rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emplace.placement.errors import MissingPackage
from emplace.placement.model import ShardingType
from emplace.placement.moving import bytes_to_move
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.topology import Topology
from emplace.solver.model.problem import Floats, Ints

_ON_DEVICES = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE)
_ON_NODES = (ShardingType.TABLE_ROW_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD)


def relabelled(
    question: Question, tables: tuple[TablePlacement, ...], start: Mapping[str, TablePlacement], topology: Topology
) -> tuple[TablePlacement, ...]:
    """`tables` on other ranks: whole nodes exchanged, and devices of a kind within them."""
    device = _kept_bytes(question, tables, start, len(topology.ranks), _ON_DEVICES)
    blocks = _kept_bytes(question, tables, start, len(topology.ranks), _ON_NODES)
    device_name = np.arange(len(topology.ranks))
    node_name = np.arange(len(topology.ranks))
    local, nodes = topology.trainers_per_node, topology.trainer_nodes
    kinds = [rank.device for rank in topology.trainers[:local]]
    value, inside = np.zeros((nodes, nodes)), {}
    for old, new in np.ndindex(nodes, nodes):
        here, there = slice(old * local, (old + 1) * local), slice(new * local, (new + 1) * local)
        inside[old, new] = _exchange(device[here, there], kinds)
        value[old, new] = device[here, there][np.arange(local), inside[old, new]].sum() + np.trace(blocks[here, there])
    for old, new in enumerate(_matched(value)):
        ranks = old * local + np.arange(local)
        device_name[ranks] = new * local + inside[old, new]
        node_name[ranks] = new * local + np.arange(local)
    first = len(topology.trainers)
    if topology.servers:
        device_name[first:] = first + _exchange(device[first:, first:], [rank.device for rank in topology.servers])
    return tuple(_on(table, device_name if table.sharding_type in _ON_DEVICES else node_name) for table in tables)


def _matched(value: Floats) -> Ints:
    """[n] the column of each row, each given once, that add up to the most."""
    try:
        import scipy  # takes longer to import than an easy check
    except ModuleNotFoundError:
        raise MissingPackage("SciPy") from None

    return np.asarray(scipy.optimize.linear_sum_assignment(value, maximize=True)[1])


def _exchange(value: Floats, kinds: list[str]) -> Ints:
    """[n] new index for each: a permutation within each kind."""
    name = np.arange(len(kinds))
    for kind in dict.fromkeys(kinds):
        alike = np.array([index for index, each in enumerate(kinds) if each == kind])
        name[alike] = alike[_matched(value[np.ix_(alike, alike)])]
    return name


def _kept_bytes(
    question: Question, tables: tuple[TablePlacement, ...], start: Mapping[str, TablePlacement], ranks: int, types: tuple[ShardingType, ...]
) -> Floats:
    """[ranks now, ranks as renamed] bytes that the start holds there of what is here."""
    specs = {table.name: table for table in question.model.tables}
    kept = np.zeros((ranks, ranks))
    optimizer = question.model.optimizer
    for table in tables:
        if table.sharding_type not in types or table.name not in start:
            continue
        spec, old = specs[table.name], start[table.name]
        for shard in table.shards:
            everything = bytes_to_move(spec, optimizer, None, _one(table, shard, shard.rank))
            for rank in {other.rank for other in old.shards}:
                kept[shard.rank, rank] += everything - bytes_to_move(spec, optimizer, old, _one(table, shard, rank))
    return kept


def _one(table: TablePlacement, shard: Shard, rank: int) -> TablePlacement:
    return table.model_copy(update={"shards": (shard.model_copy(update={"rank": rank}),)})


def _on(table: TablePlacement, name: Ints) -> TablePlacement:
    if table.sharding_type not in (*_ON_DEVICES, *_ON_NODES):
        return table
    shards = (shard.model_copy(update={"rank": int(name[shard.rank])}) for shard in table.shards)
    return table.model_copy(update={"shards": tuple(sorted(shards, key=lambda shard: (shard.rank, shard.rows, shard.columns)))})
