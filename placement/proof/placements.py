"""Every placement of a table on a few ranks: each division of its columns by four is a choice of its own."""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from emplace.placement.layout import COLUMN_MULTIPLE
from emplace.placement.model import ShardingType
from emplace.placement.proof.choices import TYPES, Choices
from emplace.placement.proof.classes import BYTES_DOWN, Bools, Floats, Ints, MemoryLeft, RankClasses
from emplace.placement.proof.ways import IN_PIECES, ON_A_NODE, ON_SINGLE_RANKS, TableWay, TableWays
from emplace.placement.stages import PLACED_STAGES
from emplace.placement.topology import Topology


def every_placement(ways: TableWays, classes: RankClasses, room: MemoryLeft) -> Choices:
    """The placements of a table that is not pinned, each rank being a class of its own; without those that have no room on empty ranks."""
    found = Choices.joined([Choices.zeros(0, classes), *(_of_way(ways, classes, way) for way in ways)])
    fits = np.hstack([found.hbm, found.ddr]) * BYTES_DOWN <= np.array([*room.hbm, *room.ddr])
    return found.where(np.asarray(fits.all(axis=1)))


def count_of_placements(ways: TableWays) -> int:
    """At most so many does a table have."""
    return sum(_most_divisions(way.sharding_type, ways) * len(way.caches.rows) for way in ways)


def _most_divisions(kind: ShardingType, ways: TableWays) -> int:
    fours, topology = ways.table.embedding_dim // COLUMN_MULTIPLE, ways.topology
    if kind not in IN_PIECES:
        return len(topology.ranks)
    places = [topology.trainer_nodes] if kind in ON_A_NODE else [len(topology.trainers), len(topology.servers)]
    return sum(comb(fours + count - 1, count - 1) for count in places if count)


def _of_way(ways: TableWays, classes: RankClasses, way: TableWay) -> Choices:
    usable = ways.usable(way.kernel)
    fours = _divisions(way.sharding_type, ways.table.embedding_dim // COLUMN_MULTIPLE, ways.topology)
    fours = fours[~(fours > 0)[:, ~usable].any(axis=1)]
    width = ways.question.model.module_of(ways.table).column_width
    if way.sharding_type is ShardingType.COLUMN_WISE and width is not None:
        fours = fours[np.isin(fours, [0, width // COLUMN_MULTIPLE]).all(axis=1)]
    time_us, hbm, ddr, served_us = _by_width(ways, way, usable)
    caches, ranks = len(way.caches.rows), np.arange(len(usable))
    found = Choices.zeros(caches * len(fours), classes)
    found.kind[:] = TYPES.index(way.sharding_type)
    found.time_us[:] = time_us[:, ranks, fours].reshape(found.time_us.shape)
    on_trainers = served_us[:, ranks, fours].sum(axis=2).reshape(len(found), 1, len(PLACED_STAGES))
    found.time_us[:, : len(ways.topology.trainers)] += on_trainers
    found.hbm[:] = hbm[:, ranks, fours].reshape(found.hbm.shape)
    on_ranks = ddr[:, ranks, fours].reshape(found.hbm.shape)
    for rank in ways.topology.ranks:
        found.ddr[:, rank.node] += on_ranks[:, rank.rank]
    found.own_us[:] = found.shortest_us[:] = found.time_us.max(axis=1)
    found.everywhere_us[:] = found.time_us.min(axis=1)
    found.ranks[:] = np.tile(fours > 0, (caches, 1))
    return found


def _by_width(ways: TableWays, way: TableWay, usable: Bools) -> tuple[Floats, Floats, Floats, Floats]:
    """[n caches, R, fours + 1, ...] what a shard of so many fours of columns puts on each rank, and last what it puts on every trainer."""
    shape = (len(way.caches.rows), len(usable), len(ways.widths) + 1)
    (time_us, served_us), (hbm, ddr) = np.zeros((2, *shape, len(PLACED_STAGES))), np.zeros((2, *shape))
    for number in np.flatnonzero(usable).tolist():
        rank = ways.topology.ranks[number]
        each = ways.prices(way, rank, ways.block(way.sharding_type, rank), ways.widths)
        time_us[:, number, 1:], hbm[:, number, 1:], ddr[:, number, 1:] = each.time_us, each.hbm, each.ddr
        served_us[:, number, 1:] = each.served_us
    return time_us, hbm, ddr, served_us


def _divisions(kind: ShardingType, fours: int, topology: Topology) -> Ints:
    """[n, R] fours of columns on each rank."""
    trainers, servers, nodes = len(topology.trainers), len(topology.servers), topology.trainer_nodes
    if kind is ShardingType.TABLE_WISE:
        return fours * np.eye(trainers + servers, dtype=np.int64)
    if kind in ON_A_NODE:
        by_node = _compositions(fours, nodes) if kind in IN_PIECES else fours * np.eye(nodes, dtype=np.int64)
        return np.repeat(by_node, topology.trainers_per_node, axis=1)
    if kind not in ON_SINGLE_RANKS:
        return np.full((1, trainers), fours)
    found = np.pad(_compositions(fours, trainers), ((0, 0), (0, servers)))
    if servers:
        found = np.concatenate([found, np.pad(_compositions(fours, servers), ((0, 0), (trainers, 0)))])
    if kind is ShardingType.TABLE_COLUMN_WISE:
        node = np.array([rank.node for rank in topology.ranks])
        first, last = node[np.argmax(found > 0, axis=1)], node[::-1][np.argmax(found[:, ::-1] > 0, axis=1)]
        found = found[first == last]
    return found


@lru_cache(maxsize=1000)
def _compositions(total: int, parts: int) -> Ints:
    """[n, parts] every way to write `total` as an ordered sum of whole numbers from 0."""
    if parts == 1:
        return np.array([[total]])
    rest = [_compositions(total - first, parts - 1) for first in range(total + 1)]
    return np.concatenate([np.insert(each, 0, first, axis=1) for first, each in enumerate(rest)])
