"""The choices of a table on classes of ranks, as mixes.

A table in pieces of w1, w2, ... of C columns takes the share w / C of the choice of each of its pieces, where the choice of a width is as
many such pieces as C columns make, C / w, whole or not. The shares come to 1, and the loads of a class are exactly those of the pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from emplace.placement.proof.choices import TYPES, Choices
from emplace.placement.proof.classes import BYTES_DOWN, MemoryLeft, RankClasses
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


def _of_place(ways: TableWays, classes: RankClasses, room: MemoryLeft, way: TableWay, place: list[int]) -> Choices:
    """As many pieces of each width as the columns make, each on all ranks of `place`."""
    columns, ranks = ways.table.embedding_dim, ways.topology.ranks
    widths = ways.widths_of(way.sharding_type)
    caches, pieces = len(way.caches.rows), columns / widths
    found = Choices.zeros(caches * len(widths), classes)
    time_us, hbm, ddr, own_us = (
        each.reshape(caches, len(widths), *each.shape[1:]) for each in (found.time_us, found.hbm, found.ddr, found.own_us)
    )
    shapes = Counter((int(classes.of_rank[number]), ways.block(way.sharding_type, ranks[number])) for number in place)
    trainers = np.bincount(classes.of_rank[: len(ways.topology.trainers)], minlength=len(classes.sizes))
    example = {(int(classes.of_rank[number]), ways.block(way.sharding_type, ranks[number])): ranks[number] for number in place}
    fits = np.ones((caches, len(widths)), dtype=bool)
    for (of_class, block), count in shapes.items():
        rank = example[of_class, block]
        each = ways.prices(way, rank, block, widths)
        group = classes.of_node[rank.node]
        time_us[:, :, of_class] += each.time_us * (count * pieces)[None, :, None]
        hbm[:, :, of_class] += each.hbm * (count * pieces)
        ddr[:, :, group] += each.ddr * (count * pieces)
        time_us += each.served_us[:, :, None] * (pieces[:, None, None] * trainers[:, None])
        np.maximum(own_us, each.time_us, out=own_us)
        fits &= (each.hbm * BYTES_DOWN <= room.hbm[rank.rank]) & (each.ddr * BYTES_DOWN <= room.ddr[rank.node])
    shortest_us = found.shortest_us.reshape(own_us.shape)
    # A cache is a mix of two corners that are next to each other.
    near = [own_us[max(index - 1, 0) : index + 2].min(axis=0) if way.is_mixed else own_us[index] for index in range(caches)]
    shortest_us[:] = np.stack(near)
    found.kind[:] = TYPES.index(way.sharding_type)
    found.share[:] = 0.0 if way.is_mixed else np.tile(1 / pieces, caches)
    if way.is_mixed:
        fits[1:] = fits[:-1].copy()  # a cache is larger than the smaller of its two corners
    return found.where(fits.ravel())
