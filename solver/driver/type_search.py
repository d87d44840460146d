"""Which sharding types a plan uses at all. Each costs a step something once, however many tables use it.

The program knows no such cost, so it is solved for sets of types: a plan that uses exactly the types S is a placement of the
program with S only, and pays for S. The sets are searched best bound first, by deciding one type after the other:

    bound(required, allowed) = bound of the program with `allowed` only + costs of `required`

is below the cost of every plan whose types hold all of `required` and none but `allowed`. So is what launching `required` takes beside
the devices, where a plan's launches depend on its types.

A whole table is column_wise in one piece as well, so with column_wise in a set and table_wise not, it is that.
"""

from __future__ import annotations

import heapq
import math
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np

from emplace.placement.cost_model import LAUNCHES
from emplace.placement.derived_plan import NO_TABLES
from emplace.placement.model import ShardingType
from emplace.solver.budget import TYPE_BOUND_SHARE
from emplace.solver.clock import Clock
from emplace.solver.driver.even_spread import EVEN_SPREAD, even_spread_us
from emplace.solver.driver.shared_cores import SHARED_BOUND, cheap_options, shared_bound_us
from emplace.solver.model.cover import Cover
from emplace.solver.model.extract import Placement
from emplace.solver.model.layouts import WHOLE
from emplace.solver.model.one_piece import in_one_piece
from emplace.solver.model.priced import PricedQuestion, type_cost_us
from emplace.solver.model.problem import Bools, Floats, Problem, with_options
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bounder, bounder_of
from emplace.solver.relaxation.by_cases import BoundedCase, cases_of
from emplace.solver.relaxation.by_holders import raised_by_holders
from emplace.solver.result import Limit, Result

Types = frozenset[ShardingType]
_Node = tuple[float, int, Types, Types, float]
"""(bound, its place among equal ones, required, allowed, bound of the devices' times)"""

FEW_BOUNDS, MANY_BOUNDS, MOST_BOUNDED = 8, 32, 400_000
"""Bounds that are computed before sets are taken as they are: many while all of them have few options together."""

AS_GOOD = 0.005
"""A set whose bound rises above another one's by less than this share of it is still the one to solve."""


@dataclass(frozen=True)
class TypeProgram:
    """A program with some sharding types, and a bound on its plans."""

    priced: PricedQuestion
    bound_us: float
    bound: str
    """Its name."""
    unpaid_us: float
    """What a plan of the program may cost beside: for types that it need not use."""
    bounder: Bounder | None = None
    """That has bounded the program without its types' costs, where that is kept: under a limit of time."""
    cases: tuple[BoundedCase, ...] = ()
    """The cases of its cover, the lowest bound first, without its types' costs; none where there is no bound by cases."""


def with_only(priced: PricedQuestion, kept: Bools) -> PricedQuestion:
    """The program with the options of `kept` ([O])."""
    number = {int(before): after for after, before in enumerate(np.flatnonzero(kept))}
    return replace(
        priced,
        problem=with_options(priced.problem, kept),
        option_layout=priced.option_layout[kept],
        option_layouts={number[option]: chosen for option, chosen in priced.option_layouts.items() if option in number},
        columns=None if priced.columns is None else tuple(priced.columns[option] for option in np.flatnonzero(kept)),
    )


def _cover_with(cover: Cover, allowed: Types) -> Cover:
    """With the options of `allowed` types, and what fixed tables load."""
    places = [place for place, each in enumerate(ShardingType) if each in allowed]
    return cover.with_cover_options(np.isin(cover.sharding_type, [-1, *places]))


def _with_base(problem: Problem, cost_us: Floats) -> Problem:
    return replace(problem, stage_base_us=problem.stage_base_us + cost_us)


class TypeSearch:
    """The programs of one, in the order of their bounds.

    Nodes of the search are types that are required, types that are allowed, and a bound. Where no type costs anything, there
    is one node: all types. A bound takes seconds on a large program, so once someone asks to stop none is computed any more:
    nodes keep the bound they have, the first one what a step costs without tables. So they do under a limit of time once the
    bounds took their share of it; then a first plan is there before any of them.
    """

    def __init__(self, priced: PricedQuestion, monitor: Monitor, first_plan: Placement | None) -> None:
        self.priced, self._monitor, self.first_plan = priced, monitor, first_plan
        self._left_s = TYPE_BOUND_SHARE * monitor.clock.left_s
        """Seconds that bounds may still take."""
        self._bounders: dict[Types, Bounder] = {}
        self._covers: dict[Types, Bounder] = {}
        """The bounders of programs without a cover, where they are kept, and of covers."""
        self._pieces: dict[Types, PricedQuestion] = {}
        self._first_bound_us = self._without_tables_us
        if monitor.clock.is_set and priced.may_have_a_plan:
            self._first_bound_us = even_spread_us(priced)
            monitor.tell(self.first_us, self._first_bound_us, "first plan")
        self._cost = {each: float(type_cost_us(priced, each).sum()) for each in _offered(priced)}
        self._fixed = frozenset(placement.sharding_type for placement in priced.fixed.placements.values())
        self._bounds: dict[Types, tuple[float, Types]] = {}
        self._cases: dict[Types, tuple[BoundedCase, ...]] = {}
        self._computed = 0
        self._most_bounds = min(max(FEW_BOUNDS, MOST_BOUNDED // max(priced.relaxed.num_options, 1)), MANY_BOUNDS)
        self._order = count()
        self._heap: list[_Node] = []
        self.name = self._first_name
        """The name of the bound."""
        if priced.may_have_a_plan:
            required = self._fixed if self.matter else self._everything
            value = self._first_bound_us if self._monitor.stopped() else self._bound(self._everything)[0]
            if math.isfinite(value):
                self._push(value + self._total(self._fixed), required, self._everything)
            self._decide_below(monitor.useless_us)

    def from_here(self) -> TypeSearch:
        """One that goes on from here, while this one stays as it is."""
        other = copy(self)
        other._heap = list(self._heap)
        return other

    @property
    def first_us(self) -> float:
        """What the first plan costs, infinity without one."""
        return math.inf if self.first_plan is None else self.first_plan.cost_us

    @property
    def matter(self) -> bool:
        """Whether any type costs anything."""
        return any(self._cost.values())

    def undecided(self, bound_us: float) -> TypeProgram:
        """The program with all types, none of which is paid for, and a bound known for all."""
        return TypeProgram(self.priced, bound_us, self.name, self._total(self._everything), self._bounders.get(self._everything))

    @property
    def others_us(self) -> float:
        """A bound on the plans of all programs that `next_below` has not given."""
        return self._heap[0][0] if self._heap else math.inf

    def unsearched(self, limit: Limit) -> Result[Placement]:
        """What is known of the plans that `next_below` has not given."""
        if math.isinf(self.others_us):
            return Result.infeasible(self.name)
        bound_us, *_, devices_us = self._heap[0]
        return Result(None, math.inf, bound_us, self._name(devices_us, bound_us), limit)

    def _name(self, devices_us: float, bound_us: float) -> str:
        """The bound's, where that of the devices' times is lower or the same."""
        return LAUNCHES if devices_us < bound_us else self.name

    def lowest_us(self) -> float:
        """A bound on the plans of all programs that `next_below` has not given, by cases too; infinity where there are none."""
        self._decide_below(math.inf)
        if self._left_s <= 0 or (found := self._take_below(math.inf)) is None:
            return self.others_us
        node, program = found
        heapq.heappush(self._heap, node)
        return program.bound_us

    def next_below(self, cost_us: float) -> TypeProgram | None:
        """The program with the lowest bound, if that is below `cost_us`. Where bounds took their share of the time, all sets at once:
        what is left is too short to bound and search one after the other."""
        self._decide_below(cost_us)
        if self._left_s <= 0 and self.others_us < cost_us:
            bound_us, self._heap = self.others_us, []
            return self.undecided(bound_us)
        found = self._take_below(cost_us)
        return None if found is None else found[1]

    def _take_below(self, cost_us: float) -> tuple[_Node, TypeProgram] | None:
        """The node with the lowest bound, and its program, if that is below `cost_us`."""
        while self.others_us < cost_us:
            node = heapq.heappop(self._heap)
            value, _, required, allowed, devices_us = node
            if (program := self._restricted(allowed, required)) is not None:
                cases = self._by_cases(allowed, cost_us, self._total(required))
                by_cases_us = (cases[0].bound_us if cases else 0.0) + self._total(required)
                if by_cases_us <= max(value, self.others_us * (1 + AS_GOOD)):
                    name = self._name(max(devices_us, by_cases_us), value)
                    name = f"{name}, by cases" if by_cases_us > value else name
                    unpaid_us, bounder = self._total(allowed - required), self._bounders.get(allowed)
                    return node, TypeProgram(program, max(value, by_cases_us), name, unpaid_us, bounder, cases)
                if math.isfinite(by_cases_us):
                    self._push(by_cases_us, required, allowed)
            self._decide_below(cost_us)
        return None

    def _decide_below(self, cost_us: float) -> None:
        """Branch until the node with the lowest bound is one to solve, or not below `cost_us`."""
        while self.others_us < cost_us and self._computed < self._most_bounds and self._left_s > 0 and not self._monitor.stopped():
            _, _, required, allowed, devices_us = self._heap[0]
            if required == allowed:
                return
            heapq.heappop(self._heap)
            self._branch(devices_us, required, allowed)

    def _branch(self, value: float, required: Types, allowed: Types) -> None:
        """On a type that the relaxation does without, if there is one: then ruling it out costs no new bound."""
        _, used = self._bound(allowed)
        decided = min(allowed - required, key=lambda each: (each in used, -self._cost[each], each))
        if not self._is_beaten(required | {decided}):
            self._push(value + self._cost[decided], required | {decided}, allowed)
        without = allowed - {decided}
        if decided in used:
            relaxed, _ = self._bound(without, self._bound(allowed)[0])
            value = max(value, relaxed + self._total(required))
        else:
            self._bounds.setdefault(without, self._bound(allowed))
        if math.isfinite(value):
            self._push(value, required, without)

    def _is_beaten(self, required: Types) -> bool:
        """Whether a plan with all of `required` does as well with fewer: with its whole tables as columns."""
        both = {ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE} <= required
        cost = self.priced.question.cost_model
        is_ordered = cost.per_permuted_vector_us > 0 or cost.per_permuted_byte_us > 0
        return both and not is_ordered and ShardingType.TABLE_WISE not in self._fixed and self._all_may_be_columns

    def _restricted(self, allowed: Types, paid: Types) -> PricedQuestion | None:
        """The program with the options of `allowed` only, where every plan pays for `paid`; None where a table has none left."""
        priced = self._in_one_piece(frozenset(kind for kind, whole in WHOLE.items() if kind in allowed and whole not in allowed))
        fewer = with_only(priced, np.array([types <= allowed for types in option_types(priced)], dtype=bool))
        cover = None if priced.cover is None else _cover_with(priced.cover, allowed)
        cost = sum((type_cost_us(priced, each) for each in sorted(paid)), np.zeros(priced.problem.num_stages))
        restricted = replace(
            fewer,
            problem=_with_base(fewer.problem, cost),
            cover=None if cover is None else replace(cover, stage_base_us=cover.stage_base_us + cost),
        )
        return restricted if restricted.may_have_a_plan else None

    def _in_one_piece(self, types: Types) -> PricedQuestion:
        """With whole tables under the names of `types`; of a small question they are options already."""
        if self.priced.columns is not None or not types:
            return self.priced
        if types not in self._pieces:
            self._pieces[types] = in_one_piece(self.priced, types)
        return self._pieces[types]

    @cached_property
    def _all_may_be_columns(self) -> bool:
        columns = self._in_one_piece(frozenset({ShardingType.COLUMN_WISE}))
        return all(ShardingType.TABLE_WISE not in types for types in option_types(columns))

    @property
    def _without_tables_us(self) -> float:
        return self.priced.problem.constant_us + float(self.priced.problem.stage_base_us.sum())

    @property
    def _first_name(self) -> str:
        if not self.priced.may_have_a_plan:
            return "a table without an option"
        return EVEN_SPREAD if self._monitor.clock.is_set else NO_TABLES

    @property
    def _everything(self) -> Types:
        return frozenset(self._cost)

    def _push(self, devices_us: float, required: Types, allowed: Types) -> None:
        question = self.priced.question
        bound_us = max(devices_us, question.cost_model.launched_us(question.model, required))
        heapq.heappush(self._heap, (bound_us, next(self._order), required, allowed, devices_us))

    def _total(self, types: Types) -> float:
        return math.fsum(self._cost.get(each, 0.0) for each in types)  # exact: a set has no order

    def _bound(self, allowed: Types, known_us: float = 0.0) -> tuple[float, Types]:
        """The bound of the program with `allowed` only, costs of types apart, and the types that its relaxation uses; `known_us` holds for
        more types already."""
        if allowed not in self._bounds:
            self._bounds[allowed] = self._new_bound(allowed, known_us)
        return self._bounds[allowed]

    def _relaxed(self, allowed: Types, program: PricedQuestion, clock: Clock, known_us: float) -> tuple[float, str, Bools]:
        """A bound on the program's plans, its name, and the options that it takes of `program.relaxed`."""
        problem = program.relaxed
        bounder = bounder_of(problem, clock)
        bound = bounder.bound(known_us)
        if not bound.feasible:
            return math.inf, bound.name, np.zeros(len(problem.option_table), dtype=bool)
        if program.cover is not None:
            self._covers[allowed] = bounder
        elif clock.is_set:
            self._bounders[allowed] = bounder
        chosen = bound.root.part.spread(bound.root.relaxation.x, 0.0, 1.0) > 0
        if program.question.cost_model.ranks_per_core > 1:
            return shared_bound_us(program, bound.value_us), SHARED_BOUND, chosen | cheap_options(problem)
        return bound.value_us, bound.name, chosen

    def _by_cases(self, allowed: Types, cost_us: float, paid_us: float) -> tuple[BoundedCase, ...]:
        """The cases of the program with `allowed` only, costs of types apart, for a higher bound of it; none where there are none. One of
        `cost_us` is enough, with what is paid for types."""
        if allowed not in self._cases:
            program = None if self._left_s <= 0 or self._monitor.stopped() else self._restricted(allowed, frozenset())
            self._cases[allowed] = ()
            if program is not None and program.cover is not None and program.question.cost_model.ranks_per_core <= 1:
                clock, enough_us = self._monitor.within(self._left_s).clock, cost_us - paid_us
                cases = cases_of(program.cover, clock, enough_us, self._covers.get(allowed))
                if program.holders is not None:
                    floor_us = program.question.cost_model.floor(program.question.model).time_us
                    cases = raised_by_holders(cases, program.cover, program.holders, floor_us - paid_us, enough_us, clock)
                self._cases[allowed] = tuple(cases)
                self._left_s = clock.left_s
        return self._cases[allowed]

    def _new_bound(self, allowed: Types, known_us: float) -> tuple[float, Types]:
        program = self._restricted(allowed, frozenset())
        if program is None:
            return math.inf, allowed
        clock = self._monitor.within(self._left_s).clock
        value, name, chosen = self._relaxed(allowed, program, clock, known_us)
        self._left_s = clock.left_s
        self.name = self.name if self._computed else name
        self._computed += 1
        if program.cover is not None:
            return value, program.cover.types_of(chosen)
        types = option_types(program)
        return value, frozenset().union(*(types[option] for option in np.flatnonzero(chosen)))


def option_types(priced: PricedQuestion) -> list[Types]:
    """[O] the sharding types of each option; none for what fixed tables load."""
    single = [frozenset({layout.sharding_type}) for layout in priced.layouts]
    return [
        frozenset(priced.layouts[part].sharding_type for part in priced.option_layouts[option])
        if option in priced.option_layouts
        else (single[layout] if layout >= 0 else frozenset())
        for option, layout in enumerate(priced.option_layout.tolist())
    ]


def _offered(priced: PricedQuestion) -> Types:
    fixed = frozenset(placement.sharding_type for placement in priced.fixed.placements.values())
    covered = frozenset() if priced.cover is None else priced.cover.types_of(np.ones(priced.cover.num_options, dtype=bool))
    return fixed.union(*option_types(priced), covered)
