"""A question as arrays, and what reads an assignment of them back: what solver/model/build.py makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from emplace.placement.model import ShardingType
from emplace.placement.plan import Question
from emplace.placement.stages import PLACED_STAGES, sharding_type_stages_us
from emplace.placement.topology import Topology
from emplace.solver.model.conflicts import Groups
from emplace.solver.model.costing import ShardPricer
from emplace.solver.model.cover import Cover
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.holders import HolderPricer
from emplace.solver.model.layouts import Layout
from emplace.solver.model.problem import Floats, Ints, Problem


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
    slack_bytes: int
    """The most by which the exact bytes on one rank can exceed those of the program."""
    cover: Cover | None
    """What bounds every plan that runs, where `problem` has only some of their placements; else None."""
    columns: tuple[Ints, ...] | None = None
    """For each option [tables of the item, ranks] columns, where options say where everything lies: of a small question. Else None."""
    holders: HolderPricer | None = None
    """Prices covers with the trainers that hold a table apart, where there is a cover and trainers are alike; else None."""

    @property
    def relaxed(self) -> Problem:
        """What bounds every plan: `problem`, or one that allows more."""
        return self.problem if self.cover is None else self.cover

    @property
    def every_item_has_an_option(self) -> bool:
        """Whether nothing that is offered is impossible on its own, beside what ranks hold anyway."""
        return self._has_room and bool(np.isin(np.arange(len(self.items)), self.problem.option_table).all())

    @property
    def may_have_a_plan(self) -> bool:
        """Likewise, of all that runs."""
        tables = len({table for item in self.items for table in item}) if self.cover is not None else len(self.items)
        return self._has_room and bool(np.isin(np.arange(tables), self.relaxed.option_table).all())

    @property
    def _has_room(self) -> bool:
        return not self.fixed.conflicts and bool((self.problem.hbm_capacity >= 0).all() and (self.problem.ddr_capacity >= 0).all())

    def layouts_of(self, option: int) -> list[Layout]:
        """One for each table of the option's item."""
        return [self.layouts[index] for index in self.option_layouts.get(option, (int(self.option_layout[option]),))]

    def item_name(self, item: int) -> str:
        """The names of an item's tables."""
        return " + ".join(self.question.model.tables[table].name for table in self.items[item])


def type_cost_us(priced: PricedQuestion, sharding_type: ShardingType) -> Floats:
    """[K] what every rank pays in each stage of the program for a sharding type in use."""
    fixed = sharding_type_stages_us(priced.question.cost_model, sharding_type, priced.topology)
    return np.array([fixed.get(stage, 0.0) for stage in PLACED_STAGES])
