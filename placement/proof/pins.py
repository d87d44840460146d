"""The one placement of a pinned table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emplace.placement.choice import choice_flaws
from emplace.placement.derived_loads import STAGES, ShardLoads
from emplace.placement.layout import COLUMN_MULTIPLE, layout_flaws
from emplace.placement.model import Pin, ShardingType, Table
from emplace.placement.plan import Shard, TablePlacement
from emplace.placement.proof.choices import TYPES, Choices
from emplace.placement.proof.classes import RankClasses
from emplace.placement.proof.ways import IN_PIECES, ON_A_NODE, TableWays
from emplace.placement.stages import PLACED_STAGES
from emplace.placement.topology import Topology
from emplace.placement.workload import ROW_SPLIT

_PLACED = [STAGES.index(stage) for stage in PLACED_STAGES]


def pinned_choice(ways: TableWays, classes: RankClasses, pin: Pin) -> Choices:
    """One choice, or none where the audit refuses the placement."""
    placement = _placement(ways.table, pin, ways.topology)
    refused = layout_flaws(ways.table, placement, ways.topology) or choice_flaws(ways.question, ways.table, placement, ways.topology)
    if refused:
        return Choices.zeros(0, classes)
    found = Choices.zeros(1, classes)
    loads = ShardLoads.of(ways.question, placement, ways.table, ways.load, ways.topology)
    nodes = np.array([rank.node for rank in ways.topology.ranks])[loads.ranks]
    found.kind[0] = TYPES.index(placement.sharding_type)
    on_ranks = np.zeros((len(ways.topology.ranks), len(STAGES)))
    loads.add_times(on_ranks, ways.topology)
    np.add.at(found.time_us[0], classes.of_rank, on_ranks[:, _PLACED])
    np.add.at(found.hbm[0], classes.of_rank[loads.ranks], loads.hbm)
    np.add.at(found.ddr[0], classes.of_node[nodes], loads.ddr)
    found.own_us[0] = found.shortest_us[0] = on_ranks[:, _PLACED].max(axis=0)
    found.everywhere_us[0] = on_ranks[:, _PLACED].min(axis=0)
    if classes.are_ranks:
        found.ranks[0, loads.ranks] = True
    return found


def _placement(table: Table, pin: Pin, topology: Topology) -> TablePlacement:
    return TablePlacement(
        name=table.name,
        sharding_type=pin.sharding_type,
        compute_kernel=pin.kernel,
        cache_load_factor=pin.cache_load_factor,
        shards=tuple(_shards(table, pin, topology)),
    )


def _shards(table: Table, pin: Pin, topology: Topology) -> Iterator[Shard]:
    """Pieces from left to right, as even as possible and wider ones first; in each the blocks of rows in order."""
    kind, rows = pin.sharding_type, table.num_embeddings
    ranks = pin.ranks if pin.ranks is not None else tuple(rank.rank for rank in topology.trainers)
    blocks = 1
    if kind in ROW_SPLIT:
        blocks = topology.trainers_per_node if kind in ON_A_NODE else len(topology.trainers)
    pieces = max(len(ranks) // blocks, 1) if kind in IN_PIECES else 1
    fours, block = table.embedding_dim // COLUMN_MULTIPLE, -(-rows // blocks)
    edges = [COLUMN_MULTIPLE * (piece * (fours // pieces) + min(piece, fours % pieces)) for piece in range(pieces + 1)]
    for number, rank in enumerate(ranks):
        piece, place = (0, 0) if kind is ShardingType.DATA_PARALLEL else divmod(number, blocks)
        left, right = edges[min(piece, pieces - 1)], edges[min(piece, pieces - 1) + 1]
        held = (min(place * block, rows), min((place + 1) * block, rows))
        yield Shard(rank=rank, rows=held, columns=(left, right), hbm_bytes=0, ddr_bytes=0)
