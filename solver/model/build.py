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
from emplace.placement.stages import PLACED_STAGES, Stage, rank_stages_us, sharding_type_stages_us
from emplace.placement.topology import Rank, Topology
from emplace.solver.model.conflicts import Groups, crowded
from emplace.solver.model.costing import RankLoads, ShardPricer
from emplace.solver.model.equal_types import superfluous_types
from emplace.solver.model.fixed import Fixed, fixed_tables
from emplace.solver.model.items import Items, items_of
from emplace.solver.model.layout_options import JoinedOptions, LargestRoom, LayoutPricer
from emplace.solver.model.layouts import Layout, layouts
from emplace.solver.model.problem import Floats, Ints, Problem, Scope


@dataclass(frozen=True)
class PricedQuestion:
    """A question on one topology, as arrays, with what is needed to read an assignment back.

    Tables of `problem` are the items, then one for each rank that fixed tables load.
    """

    question: Question
    topology: Topology
    problem: Problem
    items: tuple[tuple[int, ...], ...]
    """The tables of the model (by index) that are placed as one: a single one, or a group that is kept together."""
    layouts: tuple[Layout, ...]
    option_layout: Ints
    """[O] index into `layouts`; of a group, that of its first table; -1 for what fixed tables load."""
    option_layouts: Mapping[int, tuple[int, ...]]
    """For options of groups, one index for each table of the group."""
    apart: Groups
    """Items that may share no device; `problem` doesn't know of it."""
    fixed: Fixed
    fixed_bytes: tuple[Ints, Ints]
    """[ranks] HBM and system memory of the fixed tables, already taken off the capacities of `problem`."""
    pricer: ShardPricer
    rank_bytes: Ints
    """[ranks] what each rank holds apart from its shards."""
    slack_bytes: int
    """The most by which the exact bytes on one rank can exceed those of the program."""
    parted: Problem | None
    """The problem without groups, where combinations of groups were left out that a plan might need; else None."""

    @property
    def relaxed(self) -> Problem:
        """What bounds every plan: `problem`, or one that allows more."""
        return self.problem if self.parted is None else self.parted

    @property
    def every_item_has_an_option(self) -> bool:
        """Whether nothing is impossible on its own, beside what ranks hold anyway."""
        has_room = bool((self.problem.hbm_capacity >= 0).all() and (self.problem.ddr_capacity >= 0).all())
        return has_room and not self.fixed.conflicts and bool(np.isin(np.arange(len(self.items)), self.problem.option_table).all())

    def layouts_of(self, option: int) -> list[Layout]:
        """One for each table of the option's item."""
        return [self.layouts[index] for index in self.option_layouts.get(option, (int(self.option_layout[option]),))]

    def item_name(self, item: int) -> str:
        """The names of an item's tables."""
        return " + ".join(self.question.model.tables[table].name for table in self.items[item])


def price(
    question: Question,
    topology: Topology,
    tiers: frozenset[Tier],
    *,
    only_fitting: bool = True,
    held: Mapping[str, TablePlacement] | None = None,
) -> PricedQuestion:
    """Every option within `tiers`, priced; `only_fitting` drops those too large for any target; `held` tables stay so.

    Capacities are what is left beside the ranks' own bytes and fixed tables, and below zero where those are too much.
    """
    pricer, kinds = ShardPricer(question, topology), _Kinds.of(topology)
    own_bytes = np.array([pricer.rank_bytes[rank.is_server] for rank in topology.ranks])
    fixed = fixed_tables(question, topology, held or {})
    load = pricer.fixed_load(fixed)
    hbm_capacity, ddr_capacity = _capacities(topology, own_bytes, load)
    room = LargestRoom(kinds.examples, kinds.of_device, topology, hbm_capacity, ddr_capacity) if only_fitting else None
    superfluous = superfluous_types(question, topology, fixed)
    everything = layouts(topology, question.cost_model, question.model.optimizer, tiers)
    offered = tuple(layout for layout in everything if layout.sharding_type not in superfluous)
    by_layout = LayoutPricer(pricer, question.model, kinds.examples, room, fixed)
    blocks = [block for index, layout in enumerate(offered) for block in by_layout.price(index, layout)]
    options = JoinedOptions(blocks, len(kinds.examples))
    items = items_of(question, topology, options.arrays, kinds.of_layouts(offered), kinds.of_device, fixed, load.time_us)
    return PricedQuestion(
        question,
        topology,
        _problem(question, topology, kinds, offered, items, hbm_capacity, ddr_capacity),
        items.items,
        offered,
        items.options.layout,
        items.option_layouts,
        items.apart,
        replace(fixed, conflicts=(*fixed.conflicts, *_crowded(question, items, len(topology.ranks)))),
        (load.hbm_bytes, load.ddr_bytes),
        pricer,
        own_bytes,
        options.slack_bytes,
        _parted(question, topology, tiers, held) if items.is_thinned else None,
    )


@dataclass(frozen=True)
class _Kinds:
    """The kinds of devices of a topology: G of them, servers apart from trainers."""

    names: tuple[tuple[str, bool], ...]
    """[G] (device, whether it is a server's)"""
    examples: list[Rank]
    """[G] a rank of each."""
    of_device: Ints
    """[D]"""

    @classmethod
    def of(cls, topology: Topology) -> _Kinds:
        each = [(rank.device, rank.is_server) for rank in topology.ranks]
        names = tuple(dict.fromkeys(each))
        return cls(names, [topology.ranks[each.index(name)] for name in names], np.array([names.index(name) for name in each]))

    def of_layouts(self, offered: tuple[Layout, ...]) -> Ints:
        """The kind that each layout is for; -1 where it is for all trainers of a node or of the job."""
        found = (self.names.index((layout.device, layout.on_server)) if layout.device is not None else -1 for layout in offered)
        return np.array(list(found), dtype=np.int64)


def _problem(
    question: Question,
    topology: Topology,
    kinds: _Kinds,
    offered: tuple[Layout, ...],
    items: Items,
    hbm_capacity: Ints,
    ddr_capacity: Ints,
) -> Problem:
    base = rank_stages_us(question.cost_model, question.model, topology)
    node = np.array([rank.node for rank in topology.ranks])
    return Problem(
        device_kind=kinds.of_device,
        device_node=node,
        device_is_trainer=np.array([not rank.is_server for rank in topology.ranks]),
        device_pool=node,
        hbm_capacity=hbm_capacity,
        ddr_capacity=ddr_capacity,
        constant_us=question.cost_model.step_overhead_us + base[Stage.DENSE],
        stage_base_us=np.array([base.get(stage, 0.0) for stage in PLACED_STAGES]),
        option_table=items.options.table,
        option_scope=np.append([int(layout.scope) for layout in offered], int(Scope.DEVICE)).astype(np.int64)[items.options.layout],
        option_kind=items.option_kind,
        option_first_unit=items.options.first_unit,
        unit_time_us=items.options.time_us,
        unit_hbm_bytes=items.options.hbm_bytes,
        unit_ddr_bytes=items.options.ddr_bytes,
        allowed=items.allowed,
    )


def type_cost_us(priced: PricedQuestion, sharding_type: ShardingType) -> Floats:
    """[K] what every rank pays in each stage of the program for a sharding type in use."""
    fixed = sharding_type_stages_us(priced.question.cost_model, sharding_type, priced.topology)
    return np.array([fixed.get(stage, 0.0) for stage in PLACED_STAGES])


def _parted(question: Question, topology: Topology, tiers: frozenset[Tier], held: Mapping[str, TablePlacement] | None) -> Problem:
    model = question.model.model_copy(update={"together": None})
    return price(question.model_copy(update={"model": model}), topology, tiers, held=held).problem


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
