"""Which sharding types a plan uses at all. Each costs a step something once, however many tables use it.

The program knows no such cost, so it is solved for sets of types: a plan that uses exactly the types S is a placement of the
program with S only, and pays for S. The sets are searched best bound first, by deciding one type after the other:

    bound(required, allowed) = bound of the program with `allowed` only + costs of `required`

is below the cost of every plan whose types hold all of `required` and none but `allowed`.

A whole table is column_wise in one piece as well, so with column_wise in a set and table_wise not, it is that.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from placement.model import ShardingType
from placement.stages import PLACED_STAGES, sharding_type_stages_us
from solver.bound import bound_of
from solver.options import open_to
from solver.pricing import Priced
from solver.problem import Bools, Floats, Problem, with_options
from solver.shared_cores import cheap_options, least_work_us

Types = frozenset[ShardingType]

MOST_BOUNDS = 12
"""That are computed before sets are taken as they are."""


@dataclass(frozen=True)
class SetProgram:
    """A program with some sharding types, and a bound on its plans."""

    priced: Priced
    bound_us: float
    unpaid_us: float
    """What a plan of the program may cost beside: for types that it need not use."""


def type_cost_us(priced: Priced, sharding_type: ShardingType) -> Floats:
    """[K] what every rank pays in each stage of the program for a sharding type in use."""
    fixed = sharding_type_stages_us(priced.question.cost_model, sharding_type, priced.topology)
    return np.array([fixed.get(stage, 0.0) for stage in PLACED_STAGES])


def restricted(priced: Priced, allowed: Types, paid: Types) -> Priced | None:
    """The program with the options of `allowed` only, where every plan pays for `paid`; None where a table has none left."""
    priced = _as_columns(priced) if ShardingType.COLUMN_WISE in allowed and ShardingType.TABLE_WISE not in allowed else priced
    kept = np.array([types <= allowed for types in option_types(priced)], dtype=bool)
    fewer = with_only(priced, kept)
    if len(np.unique(fewer.problem.option_table)) < len(np.unique(priced.problem.option_table)):
        return None
    cost = sum((type_cost_us(priced, each) for each in paid), np.zeros(priced.problem.num_stages))
    parted = None if priced.parted is None else _with_base(priced.parted, cost)
    return replace(fewer, problem=_with_base(fewer.problem, cost), parted=parted)


def with_only(priced: Priced, kept: Bools) -> Priced:
    """The program with the options of `kept` ([O])."""
    number = {int(before): after for after, before in enumerate(np.flatnonzero(kept))}
    return replace(
        priced,
        problem=with_options(priced.problem, kept),
        option_layout=priced.option_layout[kept],
        option_layouts={number[option]: chosen for option, chosen in priced.option_layouts.items() if option in number},
    )


def _as_columns(priced: Priced) -> Priced:
    """With every whole table that may be column_wise as that, in one piece."""
    twins = [replace(layout, sharding_type=ShardingType.COLUMN_WISE) for layout in priced.layouts]
    first_twin = len(twins)
    may = {
        index: open_to(twin, priced.pricer.tables, priced.topology)
        for index, (layout, twin) in enumerate(zip(priced.layouts, twins, strict=True))
        if layout.sharding_type is ShardingType.TABLE_WISE
    }

    def renamed(option: int, layouts: tuple[int, ...]) -> tuple[int, ...]:
        tables = priced.items[int(priced.problem.option_table[option])]
        twinned = all(index in may and may[index][table] for index, table in zip(layouts, tables, strict=True))
        return tuple(index + first_twin for index in layouts) if twinned else layouts

    single = [
        renamed(option, (index,))[0] if index >= 0 and option not in priced.option_layouts else index
        for option, index in enumerate(priced.option_layout.tolist())
    ]
    return replace(
        priced,
        layouts=(*priced.layouts, *twins),
        option_layout=np.array(single, dtype=np.int64),
        option_layouts={option: renamed(option, layouts) for option, layouts in priced.option_layouts.items()},
    )


def _with_base(problem: Problem, cost_us: Floats) -> Problem:
    return replace(problem, stage_base_us=problem.stage_base_us + cost_us)


class ShardingSets:
    """The programs of one, in the order of their bounds.

    Nodes of the search are types that are required, types that are allowed, and a bound.
    """

    def __init__(self, priced: Priced) -> None:
        self._priced = priced
        self._cost = {each: float(type_cost_us(priced, each).sum()) for each in _offered(priced)}
        self._fixed = frozenset(placement.sharding_type for placement in priced.fixed.placements.values())
        self._all_may_be_columns = all(ShardingType.TABLE_WISE not in types for types in option_types(_as_columns(priced)))
        self._bounds: dict[Types, tuple[float, Types]] = {}
        self._order = count()
        self._heap: list[tuple[float, int, Types, Types]] = []
        self.name = ""
        """Of the bound."""
        everything = frozenset(self._cost)
        if self.matter:
            value, _ = self._bound(everything)
            self._push(value + self._total(self._fixed), self._fixed, everything)

    @property
    def matter(self) -> bool:
        """Whether any type costs anything."""
        return any(self._cost.values())

    @property
    def others_us(self) -> float:
        """A bound on the plans of all programs that `next_below` has not given."""
        return self._heap[0][0] if self._heap else math.inf

    def next_below(self, cost_us: float) -> SetProgram | None:
        """The program with the lowest bound, if that is below `cost_us`."""
        while self.others_us < cost_us:
            value, _, required, allowed = heapq.heappop(self._heap)
            if required != allowed and len(self._bounds) < MOST_BOUNDS:
                self._branch(value, required, allowed)
            elif (program := restricted(self._priced, allowed, required)) is not None:
                return SetProgram(program, value, self._total(allowed - required))
        return None

    def _branch(self, value: float, required: Types, allowed: Types) -> None:
        """On a type that the relaxation does without, if there is one: then ruling it out costs no new bound."""
        _, used = self._bounds.get(allowed, (0.0, allowed))
        decided = min(allowed - required, key=lambda each: (each in used, -self._cost[each], each))
        if not self._is_beaten(required | {decided}):
            self._push(value + self._cost[decided], required | {decided}, allowed)
        without = allowed - {decided}
        if decided in used:
            relaxed, _ = self._bound(without)
            value = max(value, relaxed + self._total(required))
        else:
            self._bounds[without] = self._bounds[allowed]
        if math.isfinite(value):
            self._push(value, required, without)

    def _is_beaten(self, required: Types) -> bool:
        """Whether a plan with all of `required` does as well with fewer: with its whole tables as columns."""
        both = {ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE} <= required
        return both and ShardingType.TABLE_WISE not in self._fixed and self._all_may_be_columns

    def _push(self, value: float, required: Types, allowed: Types) -> None:
        heapq.heappush(self._heap, (value, next(self._order), required, allowed))

    def _total(self, types: Types) -> float:
        return sum(self._cost.get(each, 0.0) for each in types)

    def _bound(self, allowed: Types) -> tuple[float, Types]:
        """Of the program with `allowed` only, costs of types apart, and the types that its relaxation uses."""
        if allowed not in self._bounds:
            self._bounds[allowed] = self._new_bound(allowed)
        return self._bounds[allowed]

    def _new_bound(self, allowed: Types) -> tuple[float, Types]:
        program = restricted(self._priced, allowed, frozenset())
        if program is None:
            return math.inf, allowed
        types = option_types(program)
        if program.question.cost_model.ranks_per_core > 1:
            self.name = "least work"
            return least_work_us(program.relaxed), frozenset().union(*(types[o] for o in np.flatnonzero(cheap_options(program.problem))))
        bound = bound_of(program.relaxed)
        self.name = self.name or bound.name
        if program.parted is not None or not bound.feasible:
            return bound.value_us, allowed
        chosen = bound.root.part.spread(bound.root.relaxation.x, 0.0, 1.0) > 0
        return bound.value_us, frozenset().union(*(types[option] for option in np.flatnonzero(chosen)))


def option_types(priced: Priced) -> list[Types]:
    """Of each option of the program; none of what fixed tables load."""
    single = [frozenset({layout.sharding_type}) for layout in priced.layouts]
    return [
        frozenset(priced.layouts[part].sharding_type for part in priced.option_layouts[option])
        if option in priced.option_layouts
        else (single[layout] if layout >= 0 else frozenset())
        for option, layout in enumerate(priced.option_layout.tolist())
    ]


def _offered(priced: Priced) -> Types:
    fixed = frozenset(placement.sharding_type for placement in priced.fixed.placements.values())
    return fixed.union(*option_types(priced))
