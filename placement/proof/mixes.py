"""The choices of a table on classes of ranks: every placement is one of them, or a mix of some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from emplace.placement.model import ShardingType
from emplace.placement.proof.choices import KERNELS, TYPES, Choices
from emplace.placement.proof.classes import BYTES_DOWN, Floats, MemoryLeft, RankClasses
from emplace.placement.proof.divisions import ByNumber, ByWidth, Divisions
from emplace.placement.proof.ways import ON_A_NODE, ON_SINGLE_RANKS, TableWay, TableWays


def mixed_choices(ways: TableWays, classes: RankClasses, room: MemoryLeft) -> Choices:
    """The choices of a table that is not pinned; without those of which a shard has no room on an empty rank."""
    found = [_of_place(ways, classes, room, way, place) for way in ways for place in _places(ways, classes, way)]
    return Choices.joined([Choices.zeros(0, classes), *found])


def _places(ways: TableWays, classes: RankClasses, way: TableWay) -> Iterator[list[int]]:
    """The ranks that a piece loads, once for all places that are alike."""
    usable, trainers = ways.usable(way.kernel), ways.topology.trainers
    if way.sharding_type in ON_SINGLE_RANKS:
        of_usable = classes.of_rank[usable]
        yield from ([int(np.flatnonzero(usable)[np.argmax(of_usable == number)])] for number in np.unique(of_usable))
        return
    nodes = range(ways.topology.trainer_nodes) if way.sharding_type in ON_A_NODE else [None]
    each = ([rank.rank for rank in trainers if node is None or rank.node == node] for node in nodes)
    whole = next((place for place in each if usable[place].all()), None)
    if whole is not None:
        yield whole


def _divisions(ways: TableWays, classes: RankClasses, way: TableWay, place: list[int]) -> Divisions:
    """By number where all pieces lie on ranks of one class, trainers or servers."""
    columns, widths = ways.table.embedding_dim, ways.widths_of(way.sharding_type)
    if way.sharding_type in ON_A_NODE:
        return ByNumber(columns, widths, ways.topology.trainer_nodes)
    if way.sharding_type not in ON_SINGLE_RANKS:
        return ByNumber(columns, widths, 1)
    trainers, is_server = len(ways.topology.trainers), ways.topology.ranks[place[0]].is_server
    side = slice(trainers, None) if is_server else slice(trainers)
    usable = ways.usable(way.kernel)[side]
    if len(np.unique(classes.of_rank[side][usable])) > 1 and way.sharding_type is not ShardingType.TABLE_WISE:
        return ByWidth(columns, widths)
    on_one_node = way.sharding_type is ShardingType.TABLE_COLUMN_WISE
    return ByNumber(columns, widths, ways.topology.trainers_per_node if on_one_node else int(usable.sum()))


def _of_place(ways: TableWays, classes: RankClasses, room: MemoryLeft, way: TableWay, place: list[int]) -> Choices:
    """The columns in each division, each piece on all ranks of `place` or of a place like it."""
    ranks, widths = ways.topology.ranks, ways.widths_of(way.sharding_type)
    divisions = _divisions(ways, classes, way, place)
    caches, pieces, share = len(way.caches.rows), divisions.pieces(), divisions.share()
    found = Choices.zeros(caches * len(pieces), classes)
    time_us, hbm, ddr, own_us, everywhere_us = (
        each.reshape(caches, len(pieces), *each.shape[1:])
        for each in (found.time_us, found.hbm, found.ddr, found.own_us, found.everywhere_us)
    )
    shapes = Counter((int(classes.of_rank[number]), ways.block(way.sharding_type, ranks[number])) for number in place)
    trainers = np.bincount(classes.of_rank[: len(ways.topology.trainers)], minlength=len(classes.sizes))
    example = {(int(classes.of_rank[number]), ways.block(way.sharding_type, ranks[number])): ranks[number] for number in place}
    fits = np.ones((caches, len(pieces)), dtype=bool)
    everywhere_us[:] = np.inf if len(place) == len(ranks) else 0.0
    widest_us = []
    for (of_class, block), count in shapes.items():
        rank = example[of_class, block]
        each = ways.prices(way, rank, block, widths)
        group = classes.of_node[rank.node]
        together_us = divisions.together(each.time_us)
        time_us[:, :, of_class] += together_us * count
        hbm[:, :, of_class] += divisions.together(each.hbm) * count
        ddr[:, :, group] += divisions.together(each.ddr) * count
        time_us += divisions.together(each.served_us)[:, :, None] * trainers[:, None]
        widest_us.append(divisions.widest(each.time_us))
        np.minimum(everywhere_us, together_us, out=everywhere_us)
        fits &= divisions.widest(each.hbm) * BYTES_DOWN <= room.hbm[rank.rank]
        fits &= divisions.widest(each.ddr) * BYTES_DOWN <= room.ddr[rank.node]
    own_us[:] = _largest(np.array(widest_us), is_mixed=way.is_mixed)
    shortest_us = found.shortest_us.reshape(own_us.shape)
    # A cache is a mix of two corners that are next to each other.
    near = [own_us[max(index - 1, 0) : index + 2].min(axis=0) if way.is_mixed else own_us[index] for index in range(caches)]
    shortest_us[:] = np.stack(near)
    found.kind[:] = TYPES.index(way.sharding_type)
    found.kernel[:] = KERNELS.index(way.kernel)
    found.on_server[:] = ranks[place[0]].is_server
    found.pieces[:] = np.tile(pieces, caches)
    if way.sharding_type in ON_SINGLE_RANKS:
        found.whole_on[:] = np.where(np.tile(divisions.are_whole(), caches), classes.of_rank[place[0]], -1)
    found.share[:] = 0.0 if way.is_mixed else np.tile(share, caches)
    if way.is_mixed:
        fits[1:] = fits[:-1].copy()  # a cache is larger than the smaller of its two corners
    return found.where(fits.ravel())


def _largest(widest_us: Floats, *, is_mixed: bool) -> Floats:
    """[caches, P, K] of the shapes of shards [S, caches, P, K] that a placement has: the one that takes most. It is the same for all caches
    where these are mixed, so that a mix of two is not taken for the largest of each."""
    if not is_mixed:
        return np.asarray(widest_us.max(axis=0))
    largest = widest_us.sum(axis=1, keepdims=True).argmax(axis=0, keepdims=True)
    return np.asarray(np.take_along_axis(widest_us, largest, axis=0)[0])
