"""All placements of a question on one set of ranks, as what a proof is about: choices, capacities and what every step takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from emplace.placement.certificate import HasAtMost, HasWay
from emplace.placement.host import DeviceType
from emplace.placement.hot_rows import hottest_place
from emplace.placement.memory import rank_bytes
from emplace.placement.plan import Question
from emplace.placement.proof.choices import TYPES, Choices
from emplace.placement.proof.classes import Floats, Ints, MemoryLeft, RankClasses
from emplace.placement.proof.mixes import mixed_choices
from emplace.placement.proof.pins import pinned_choice
from emplace.placement.proof.placements import count_of_placements, every_placement
from emplace.placement.proof.ways import TableWays, table_ways
from emplace.placement.stages import PLACED_STAGES, Stage, rank_stages_us, sharding_type_stages_us, slowest_share, stage_lengths_us
from emplace.placement.sums import add_up
from emplace.placement.topology import SERVED, Topology

MOST_RANKS, MOST_TABLES, MOST_PLACEMENTS = 6, 12, 20_000
"""Up to so many ranks, tables, and placements of a table each rank may be a class by itself."""


@dataclass(frozen=True)
class ProofProgram:
    """T tables on G classes of ranks and P groups of nodes."""

    question: Question
    topology: Topology
    classes: RankClasses
    choices: Choices
    """Those of all tables."""
    hbm_capacity: tuple[int, ...]
    """[G] bytes of all ranks of a class, what they hold anyway taken off."""
    ddr_capacity: tuple[int, ...]
    """[P]"""
    has_room: bool
    """Whether every rank and node has room for what it holds anyway."""
    fixed_us: float
    """What every step takes, whatever lies where and of whatever sharding type."""
    type_cost_us: Floats
    """[TYPES] what a step takes for a sharding type in use."""
    slowest_share: float
    """What is beyond the mean of the ranks counts by so much."""

    @property
    def each_rank(self) -> bool:
        """Whether choices are placements and not mixes."""
        return self.classes.are_ranks

    @property
    def tables(self) -> int:
        """T."""
        return len(self.question.model.tables)

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each table in the model, by name."""
        return {table.name: place for place, table in enumerate(self.question.model.tables)}

    def flaw_of(self, says: HasWay | HasAtMost) -> str | None:
        """Why this can't be said of a table; None where it can."""
        place = self.places.get(says.table)
        if place is None or self.question.model.tables[place].constraints.pin is not None:
            return f"there is no table {says.table} that is not pinned"
        if isinstance(says, HasAtMost) and (self.choices.pieces[self.choices.table == place] == 0).any():
            return f"choices of {says.table} are by the widths of pieces, not by their number"
        return None

    def case(self, says: HasWay | HasAtMost, *, so: bool) -> ProofProgram:
        """The placements of which that is so, or not so."""
        elsewhere = self.choices.table != self.places[says.table]
        return replace(self, choices=self.choices.where(elsewhere | (self.choices.are(says) == so)))

    def every_table_is_in(self, choices: Choices) -> bool:
        """Whether each table has a choice among these."""
        return len(np.unique(choices.table)) == self.tables


def topologies(question: Question) -> tuple[Topology, Topology | None]:
    """The ranks of a job of trainers alone, and of one with servers where the question allows their tier. Raises InvalidDocument."""
    has_servers = not SERVED.isdisjoint(question.allowed_tiers)
    return question.topology(with_servers=False), question.topology(with_servers=True) if has_servers else None


def may_be_by_rank(question: Question, topology: Topology) -> bool:
    """Whether there are few enough placements to look at each."""
    if len(topology.ranks) > MOST_RANKS or len(question.model.tables) > MOST_TABLES:
        return False
    return all(count_of_placements(ways) <= MOST_PLACEMENTS for ways in table_ways(question, topology, may_mix=False))


def program_of(question: Question, topology: Topology, *, each_rank: bool) -> ProofProgram:
    """Every choice of every table priced."""
    model, cost = question.model, question.cost_model
    every = table_ways(question, topology, may_mix=not each_rank)
    hottest = hottest_place(model, [ways.load for ways in every], topology)
    classes = RankClasses.of(topology, each_rank=each_rank, hottest_place=hottest)
    room = _room(question, topology, every)
    base = rank_stages_us(cost, model, topology)
    dense = np.array([[0.0 if rank.is_server else base[Stage.DENSE]] for rank in topology.ranks])
    placed_us = add_up(base.get(stage, 0.0) for stage in PLACED_STAGES)
    return ProofProgram(
        question,
        topology,
        classes,
        Choices.joined([_of_table(_choices(ways, classes, room), index) for index, ways in enumerate(every)]),
        _by_class(room.hbm, classes.of_rank),
        _by_class(room.ddr, classes.of_node),
        room.is_enough,
        cost.step_overhead_us + float(stage_lengths_us(dense, cost)[0]) + placed_us,
        np.array([add_up(sharding_type_stages_us(cost, kind, topology).values()) for kind in TYPES]),
        slowest_share(cost, len(topology.ranks)),
    )


def _of_table(choices: Choices, table: int) -> Choices:
    return replace(choices, table=np.full(len(choices), table))


def _choices(ways: TableWays, classes: RankClasses, room: MemoryLeft) -> Choices:
    if (pin := ways.table.constraints.pin) is not None:
        return pinned_choice(ways, classes, pin)
    return (every_placement if classes.are_ranks else mixed_choices)(ways, classes, room)


def _room(question: Question, topology: Topology, every: list[TableWays]) -> MemoryLeft:
    loads = [ways.load for ways in every]
    kinds = {(rank.is_server, rank.type is DeviceType.CUDA) for rank in topology.ranks}
    own = {kind: rank_bytes(question.model, loads, is_server=kind[0], on_cuda=kind[1]) for kind in kinds}
    on_rank, on_node = [rank.hbm_capacity_bytes for rank in topology.ranks], list(topology.node_ddr_capacity_bytes)
    for rank in topology.ranks:
        if rank.type is DeviceType.CUDA:
            on_rank[rank.rank] -= own[rank.is_server, True]
        else:
            on_node[rank.node] -= own[rank.is_server, False]
    return MemoryLeft(tuple(on_rank), tuple(on_node))


def _by_class(each: tuple[int, ...], of: Ints) -> tuple[int, ...]:
    sums = [0] * (int(of.max()) + 1)
    for number, value in zip(of.tolist(), each, strict=True):
        sums[number] += value
    return tuple(sums)
