"""From a question to the arrays of its integer program: every layout priced for every table it is open to.

A row-split table is charged its shortest block on every rank, in time and in bytes: never more than it takes, so that
bounds and proofs hold for the exact plan. The exact figures are those of solver/model/extract.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from emplace.placement.host import DeviceType
from emplace.placement.model import ShardingType, Tier
from emplace.placement.plan import Question, TablePlacement
from emplace.placement.stages import PLACED_STAGES, Stage, rank_stages_us, stage_lengths_us
from emplace.placement.topology import Rank, Topology
from emplace.solver.model.colocation import OptionArrays
from emplace.solver.model.concrete import ConcretePlacer
from emplace.solver.model.concrete_items import concrete_items, program_options
from emplace.solver.model.conflicts import crowded
from emplace.solver.model.costing import RankLoads, ShardPricer
from emplace.solver.model.cover_options import CoverPricer
from emplace.solver.model.cover_problem import cover_of
from emplace.solver.model.equal_types import superfluous_types
from emplace.solver.model.fixed import Fixed, fixed_tables
from emplace.solver.model.holders import HolderPricer, trainers_are_alike
from emplace.solver.model.items import Items, items_of
from emplace.solver.model.layout_options import JoinedOptions, LargestRoom, LayoutPricer
from emplace.solver.model.layouts import Layout, layouts
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope

EACH_PLACE = 512
"""Tables times trainers of a node up to which each place of a node is a kind of device, where rows are hot: of more the hottest one is."""


def price(
    question: Question,
    topology: Topology,
    tiers: frozenset[Tier],
    *,
    may_be_concrete: bool = True,
    with_cover: bool = True,
    mean_blocks: bool = False,
    held: Mapping[str, TablePlacement] | None = None,
) -> PricedQuestion:
    """Every option within `tiers` that fits some target, priced; `held` tables stay so. Where the blocks of a row split are unlike, each
    rank is charged the heaviest, with `mean_blocks` the mean.

    Of a small question every placement is an option (solver/model/concrete.py), unless that may not be; of others there is a cover, for
    who asks for more than plans. Capacities are what is left beside the ranks' own bytes and fixed tables, and below zero where those are too much.
    """
    around = _Around.of(question, topology, tiers, held or {}, PLACED_STAGES)
    concrete = _concrete(around) if may_be_concrete else None
    if concrete is not None:
        return concrete
    offered = _offered(around, only_fitting=True, mean_blocks=mean_blocks)
    return covered(offered, tiers) if with_cover else offered


def covered(offered: PricedQuestion, tiers: frozenset[Tier]) -> PricedQuestion:
    """A program that `price` made for these tiers without a cover, with one where not all placements are its options."""
    if offered.columns is not None:
        return offered
    question, topology, fixed, pricer = offered.question, offered.topology, offered.fixed, offered.pricer
    each_place = len(question.model.tables) * topology.trainers_per_node <= EACH_PLACE
    kinds = _Kinds.of(topology, pricer.hottest_place(), each_place=each_place)
    types = frozenset(ShardingType) - superfluous_types(question, topology, fixed)
    cover_pricer = CoverPricer(question, topology, tiers, types, kinds.examples, kinds.of_device, pricer)
    cover = cover_of(offered.problem, kinds.of_device, question, cover_pricer, fixed, pricer.fixed_load(fixed).time_us)
    holders = HolderPricer(question, cover_pricer, offered.problem, fixed) if trainers_are_alike(cover, fixed) else None
    return replace(offered, cover=cover, holders=holders)


def price_bytes(question: Question, topology: Topology, tiers: frozenset[Tier]) -> PricedQuestion:
    """Every option within `tiers`, also those that fit nowhere, with its bytes alone: a program without stages."""
    return _offered(_Around.of(question, topology, tiers, {}, ()), only_fitting=False)


def _offered(around: _Around, *, only_fitting: bool, mean_blocks: bool = False) -> PricedQuestion:
    """The program of all layouts; without a cover."""
    question, topology, fixed, load = around.question, around.topology, around.fixed, around.load
    kinds = _Kinds.of(topology)
    room = LargestRoom(kinds.examples, kinds.of_device, topology, around.hbm_capacity, around.ddr_capacity) if only_fitting else None
    superfluous = superfluous_types(question, topology, fixed)
    everything = layouts(topology, question.cost_model, question.model, around.tiers)
    offered = tuple(layout for layout in everything if layout.sharding_type not in superfluous)
    by_layout = LayoutPricer(around.pricer, question.model, kinds.examples, room, fixed, mean_blocks=mean_blocks)
    blocks = [block for index, layout in enumerate(offered) for block in by_layout.price(index, layout)]
    options = JoinedOptions(blocks, len(kinds.examples), len(around.pricer.stages))
    items = items_of(question, topology, options.arrays, kinds.of_layouts(offered), kinds.of_device, fixed, load.time_us)
    conflicts = (*fixed.conflicts, *_crowded(question, items, len(topology.ranks)))
    is_trainer = np.array([not rank.is_server for rank in topology.ranks])
    return PricedQuestion(
        question=question,
        topology=topology,
        problem=_problem(around, kinds.of_device, is_trainer, offered, items.options, items.option_kind, items.allowed),
        items=items.items,
        layouts=offered,
        option_layout=items.options.layout,
        option_layouts=items.option_layouts,
        apart=items.apart,
        fixed=replace(fixed, conflicts=conflicts),
        fixed_bytes=(load.hbm_bytes, load.ddr_bytes),
        pricer=around.pricer,
        slack_bytes=options.slack_bytes,
        cover=None,
    )


@dataclass(frozen=True)
class _Around:
    """What a program is built around: the question, and what ranks have left beside fixed tables."""

    question: Question
    topology: Topology
    tiers: frozenset[Tier]
    pricer: ShardPricer
    fixed: Fixed
    load: RankLoads
    hbm_capacity: Ints
    ddr_capacity: Ints

    @classmethod
    def of(
        cls,
        question: Question,
        topology: Topology,
        tiers: frozenset[Tier],
        held: Mapping[str, TablePlacement],
        stages: tuple[Stage, ...],
    ) -> _Around:
        """With prices of these stages."""
        pricer = ShardPricer(question, topology, stages)
        fixed = fixed_tables(question, topology, held)
        load = pricer.fixed_load(fixed)
        capacities = _capacities(topology, pricer.rank_bytes, load)
        return cls(question, topology, tiers, pricer, fixed, load, *capacities)


def _concrete(around: _Around) -> PricedQuestion | None:
    """With every placement of every table as an option; None where those are too many."""
    question, topology, fixed, load = around.question, around.topology, around.fixed, around.load
    types = frozenset(ShardingType) - superfluous_types(question, topology, fixed, is_concrete=True)
    placer = ConcretePlacer(question, topology, around.tiers, types, around.pricer)
    found = concrete_items(placer, question.model, fixed, around.hbm_capacity, around.ddr_capacity)
    if found is None:
        return None
    offered = tuple(
        Layout(way.sharding_type, way.kernel, Scope.WORLD, None, False, 1, 1, 1, way.interval, frozenset()) for way in found.ways
    )
    options, option_kind = program_options(found, load.time_us)
    ways = [way for each in found.options for way in each.way.tolist()]
    columns = [np.empty((0, len(topology.ranks)), np.int64), *(each for options_ in found.options for each in options_.columns)]
    first_way = np.array([way[0] for way in ways] + [-1], dtype=np.int64)
    ranks = np.arange(len(topology.ranks))
    layout = first_way[options.layout]
    return PricedQuestion(
        question=question,
        topology=topology,
        problem=_problem(around, ranks, ranks >= 0, offered, replace(options, layout=layout), option_kind, None),
        items=found.items,
        layouts=offered,
        option_layout=layout,
        option_layouts={
            option: tuple(ways[place]) for option, place in enumerate(options.layout.tolist()) if place >= 0 and len(ways[place]) > 1
        },
        apart=(),
        fixed=fixed,
        fixed_bytes=(load.hbm_bytes, load.ddr_bytes),
        pricer=around.pricer,
        slack_bytes=0,
        cover=None,
        columns=tuple(columns[place + 1] for place in options.layout),
    )


@dataclass(frozen=True)
class _Kinds:
    """The kinds of devices of a topology: G of them, servers apart from trainers."""

    names: tuple[tuple[str, bool, int], ...]
    """[G] (device, whether it is a server's, where places are apart: which)"""
    examples: list[Rank]
    """[G] a rank of each."""
    of_device: Ints
    """[D]"""

    @classmethod
    def of(cls, topology: Topology, hottest_place: int | None = None, *, each_place: bool = False) -> _Kinds:
        """Where there is a hottest place of a node, trainers there, which get the most of row splits, are a kind apart; with `each_place` those
        at every place are."""
        local = topology.trainers_per_node

        def apart(rank: Rank) -> int:
            if hottest_place is None or rank.is_server:
                return 0
            return rank.rank % local if each_place else int(rank.rank % local == hottest_place)

        each = [(rank.device, rank.is_server, apart(rank)) for rank in topology.ranks]
        names = tuple(dict.fromkeys(each))
        return cls(names, [topology.ranks[each.index(name)] for name in names], np.array([names.index(name) for name in each]))

    def of_layouts(self, offered: tuple[Layout, ...]) -> Ints:
        """The kind that each layout is for; -1 where it is for all trainers of a node or of the job."""
        found = (self.names.index((layout.device, layout.on_server, 0)) if layout.device is not None else -1 for layout in offered)
        return np.array(list(found), dtype=np.int64)


def _problem(
    around: _Around,
    device_kind: Ints,
    is_trainer: Bools,
    offered: tuple[Layout, ...],
    options: OptionArrays,
    option_kind: Ints,
    allowed: Bools | None,
) -> Problem:
    question, topology = around.question, around.topology
    constant_us, stage_base_us = _without_tables(question, topology, around.pricer.stages)
    node = np.array([rank.node for rank in topology.ranks])
    return Problem(
        device_kind=device_kind,
        device_node=node,
        device_is_trainer=is_trainer,
        device_pool=node,
        hbm_capacity=around.hbm_capacity,
        ddr_capacity=around.ddr_capacity,
        constant_us=constant_us,
        stage_base_us=stage_base_us,
        option_table=options.table,
        option_scope=np.append([int(layout.scope) for layout in offered], int(Scope.DEVICE)).astype(np.int64)[options.layout],
        option_kind=option_kind,
        option_first_unit=options.first_unit,
        unit_time_us=options.time_us,
        unit_hbm_bytes=options.hbm_bytes,
        unit_ddr_bytes=options.ddr_bytes,
        allowed=allowed,
    )


def step_without_tables_us(question: Question, topology: Topology) -> float:
    """What a step takes before any table is placed: no plan takes less."""
    constant_us, stage_base_us = _without_tables(question, topology, PLACED_STAGES)
    return constant_us + float(stage_base_us.sum())


def _without_tables(question: Question, topology: Topology, stages: tuple[Stage, ...]) -> tuple[float, Floats]:
    """What a step takes beside the stages of tables, and what each of these ([K]) takes on every rank before any is placed."""
    base = rank_stages_us(question.cost_model, question.model, topology)
    constant_us = question.cost_model.step_overhead_us + _dense_us(question, topology, base[Stage.DENSE])
    return constant_us, np.array([base.get(stage, 0.0) for stage in stages])


def _dense_us(question: Question, topology: Topology, trainer_us: float) -> float:
    """How long the dense stage lasts, where each trainer takes `trainer_us` and servers nothing."""
    loads = np.array([[0.0 if rank.is_server else trainer_us] for rank in topology.ranks])
    return float(stage_lengths_us(loads, question.cost_model)[0])


def _crowded(question: Question, items: Items, num_ranks: int) -> Iterator[tuple[str, str]]:
    for group in crowded(items.apart, items.allowed, num_ranks):
        names = [question.model.tables[table].name for item in group for table in items.items[item]]
        where = f"the job has {num_ranks} devices" if items.allowed is None else "the ranks that are allowed for them are too few"
        yield " + ".join(names), f"must be apart, which takes {len(group)} devices: {where}"


def _capacities(topology: Topology, own_bytes: Ints, fixed: RankLoads) -> tuple[Ints, Ints]:
    """([ranks] HBM, [nodes] system memory) left beside the ranks' own bytes and fixed tables."""
    on_cuda = np.array([rank.type is DeviceType.CUDA for rank in topology.ranks])
    node = [rank.node for rank in topology.ranks]
    hbm = np.array([rank.hbm_capacity_bytes for rank in topology.ranks]) - np.where(on_cuda, own_bytes, 0) - fixed.hbm_bytes
    ddr = np.array(topology.node_ddr_capacity_bytes)
    np.subtract.at(ddr, node, np.where(on_cuda, 0, own_bytes) + fixed.ddr_bytes)
    return hbm, ddr
