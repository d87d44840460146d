"""The proven lower bound: the class relaxation, tightened by what single tables force.

docs/explanation/bounds.md states each bound and proves it. Prices of options (reduced costs) guide the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from emplace.solver.budget import BOUND_PRECISION, BOUND_ROUNDING
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.model.cover import Cover
from emplace.solver.model.indexing import first_option, or_all
from emplace.solver.model.problem import Bools, Floats, Problem
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.relaxation.aggregate import aggregate, longest_in_any, usable_options
from emplace.solver.relaxation.column_generation import even_dual, lagrangian, least_makespans, relax
from emplace.solver.relaxation.granular_stages import GranularStages, StepLevel
from emplace.solver.relaxation.large_units import LargeUnits
from emplace.solver.relaxation.packing_cuts import PackingCuts
from emplace.solver.relaxation.program import Program, Relaxation, StartingPoint
from emplace.solver.relaxation.reduced_program import ReducedProgram
from emplace.solver.relaxation.region import Region
from emplace.solver.relaxation.single_table_cuts import CUT_ROUNDS, SingleTableCuts
from emplace.solver.relaxation.stage_boxes import StageBoxes

WIDE, FIRST_STEP = 0.1, 0.005
"""Shares of the bound: how far above it the first value is tried, which is not meant to be ruled out, and then the second."""
FIXING_ROUNDS, MANY_OPTIONS, WORTH_ANOTHER = 6, 10_000, 0.9
"""Rounds of dropping options below one value at most. Of many options, where a round takes long, one is the last that leaves more than
this share of them, and of what the value has above the least makespans: the next would drop next to none."""
LEAST_RISE_OF_CUTS = 0.001
"""Share of what a value has above the least makespans: one that can't rise by more is not looked for."""
BOX_STEP, MOST_OPTIONS_LEFT, MOST_BOXES, OPTIONS_OF_BOXES = 0.005, 12_500, 120, 500_000
"""How far above the bound a value is that boxes of stage lengths are to rule out, as a share of it; the options near the bound up to which
they are; and the boxes bounded at most, as many as have so many options together: each is a linear program."""
HARDER = 2
"""How many times as many boxes the next such value is likely to take."""
LAST_STEP = 1e3
"""Multiple of the bound beyond which no value is tried."""


@dataclass(frozen=True)
class Bound:
    """`value_us` holds for every placement; infinity where none exists."""

    value_us: float
    name: str
    fixed_us: float
    """The part of the objective that no choice changes."""
    root: Region
    """All placements."""
    near: Region
    """Those within a little of the class relaxation."""
    boxes: StageBoxes | None = None
    """Those up to a little above the bound, where large units raise it."""

    @property
    def feasible(self) -> bool:
        return bool(np.isfinite(self.value_us))


def bound_at_once(problem: Problem) -> float:
    """A bound without any linear program: the stages last as long as if all tables were spread evenly, whatever the memory."""
    rows, stages = aggregate(problem), problem.num_stages
    every = np.ones(problem.num_options, dtype=bool)
    program = Program(rows, first_option(problem), every, lower=np.zeros(stages), price=np.ones(stages))
    return problem.constant_us + float(problem.stage_base_us.sum()) + lagrangian(program, even_dual(program)).bound


def bounder_of(problem: Problem, clock: Clock = ENDLESS, *, packing_rounds: int = 0) -> Bounder:
    """The bounder of a problem, with as few stages as say the same."""
    return Bounder(merge_stages(problem), clock, packing_rounds)


class Bounder:
    """Proves lower bounds on one problem; worse ones where the clock ends it."""

    def __init__(self, problem: Problem, clock: Clock = ENDLESS, packing_rounds: int = 0) -> None:
        """Packing cuts, in so many rounds at most, are for covers only."""
        self.problem, self.clock, self._packing_rounds = problem, clock, packing_rounds
        self._found: Bound | None = None
        self.fixed_us = problem.constant_us + float(problem.stage_base_us.sum())
        self.cuts = SingleTableCuts(problem)
        self.longest = longest_in_any(problem)
        self.share = problem.share if isinstance(problem, Cover) else np.ones(problem.num_options)
        self.program = Program(
            rows=aggregate(problem),
            first=first_option(problem),
            usable=usable_options(problem),
            lower=np.zeros(problem.num_stages),
            price=np.ones(problem.num_stages),
        )
        if (problem.hbm_capacity < 0).any() or (problem.ddr_capacity < 0).any():
            self.program = replace(self.program, usable=np.zeros_like(self.program.usable))

    @property
    def relaxed_us(self) -> float:
        """The class relaxation as it is, a bound already."""
        return self.fixed_us + self._relaxed.bound

    @cached_property
    def root(self) -> Region:
        """All placements, and the class relaxation with cuts."""
        if not self._relaxed.feasible:
            return Region(ReducedProgram.of(self.program), self._relaxed)
        self.program, relaxation = self._tighten(self._relaxed)
        return Region(ReducedProgram.of(self.program), relaxation)

    def bound(self, known_us: float = 0.0) -> Bound:
        """The class relaxation with cuts, or a higher bound that is known, raised by ruling out values above it. Found once."""
        self._found = self._found or self._new_bound(known_us)
        return self._found

    def with_base(self, problem: Problem) -> Bounder:
        """This one for a problem that differs only in what the step takes without tables: what s must be is the same."""
        moved, found = copy(self), self.bound()
        moved.problem, moved.fixed_us = problem, problem.constant_us + float(problem.stage_base_us.sum())
        moved._found = replace(found, value_us=found.value_us + moved.fixed_us - self.fixed_us, fixed_us=moved.fixed_us)
        return moved

    def by(self, clock: Clock) -> Bounder:
        """This one, which another clock ends."""
        other = copy(self)
        other.clock = clock
        return other

    @cached_property
    def _relaxed(self) -> Relaxation:
        return self._relax(self.program)

    @cached_property
    def _steps(self) -> GranularStages:
        return GranularStages(self.problem)

    def _step_level(self, near: Region) -> StepLevel | None:
        return self._steps.level(near.part, near.relaxation.makespan)

    def _new_bound(self, known_us: float) -> Bound:
        root = wide = near = self.root
        relaxation = root.relaxation
        if not relaxation.feasible:
            return Bound(np.inf, "class relaxation", self.fixed_us, root, root)
        low, high, step, widest = max(relaxation.bound, known_us - self.fixed_us), np.inf, WIDE, np.inf
        while high - low > BOUND_PRECISION * (low + self.fixed_us) and step < LAST_STEP and not self.clock.is_over:
            value = min(low + step * (low + self.fixed_us), (low + high) / 2)
            below = self.below(near, value)
            if below is None:
                low, step = value, step * 2
            elif self.clock.is_over:
                break  # its linear programs are not solved
            elif np.isinf(high):
                low, high, wide, near, step, widest = max(low, below.relaxation.bound), value, below, below, FIRST_STEP, value
            else:
                low, high, near = max(low, below.relaxation.bound), value, below
        name = "class relaxation" if low <= relaxation.bound else "class relaxation, refuted values"
        highest = low if self.clock.is_over else self._in_whole_steps(low, near, wide, widest)
        if highest > low * (1 + BOUND_PRECISION):
            low, name = highest, f"{name}, whole steps"
        return Bound(self.fixed_us + low, name, self.fixed_us, root, near)

    def _in_whole_steps(self, low: float, near: Region, wide: Region, widest: float) -> float:
        """A bound on the sum of s, at least `low`, from a stage that lasts a whole number of steps or is left unfilled. `wide` holds all
        placements up to `widest`."""
        if np.isinf(widest) or isinstance(self.problem, Cover):
            return low  # a cover's loads are means, which say nothing of the steps that devices' come in
        level = self._step_level(near)
        if level is None:
            return low
        high = value = min(self._relax(self._steps.above(near.part, level), near.relaxation.starting_point).bound, widest)
        region = self.below(wide, value)
        cases = left = [] if region is None else self._in_cases(level, region, value)
        while True:
            least = min((case.relaxation.bound for case in left), default=np.inf)
            low = max(low, min(least, value))
            if least < value:
                high, cases = value, left
            if high - low <= BOUND_PRECISION * (low + self.fixed_us) or self.clock.is_over:
                return low
            value = (low + high) / 2
            left = self._all_below(cases, value)

    def raised(self, bound: Bound) -> Bound:
        """The bound, raised by what devices with a large unit can't hold besides."""
        units = self._large_units(bound) if bound.feasible and len(bound.near.part.left) <= MOST_OPTIONS_LEFT else []
        value_us, lowest, left = bound.value_us, None, MOST_BOXES
        while units and left > 0 and not self.clock.is_over:
            highest = value_us * (1 + BOX_STEP) - self.fixed_us
            region = self.below(bound.root, highest)
            regions = [] if region is None else self.cases_below(bound, region, highest)
            left = min(left, OPTIONS_OF_BOXES // max(sum(len(region.part.left) for region in regions), 1))
            tried = [StageBoxes(large, regions, highest, self.clock) for large in units]
            most = max(boxes.least for boxes in tried) * (1 - BOUND_PRECISION)
            lowest = next(boxes for boxes in tried if boxes.least >= most)
            left -= sum(boxes.solved for boxes in tried if boxes is not lowest)
            lowest.split(left)
            left -= max(lowest.solved, 1)
            units, value_us = [lowest.large], max(value_us, self.fixed_us + lowest.least)
            if lowest.least < highest or left < HARDER * lowest.solved:
                break
        if value_us <= bound.value_us:
            return bound
        return replace(bound, value_us=value_us, name=f"{bound.name}, large units", boxes=lowest)

    def _large_units(self, bound: Bound) -> list[LargeUnits]:
        """For each stage that has some; none where devices are not all alike, or wait for nothing in between."""
        problem, near = self.problem, bound.near
        if isinstance(problem, Cover) or problem.num_kinds > 1 or problem.num_stages == 1 or not problem.device_is_trainer.all():
            return []
        units = (LargeUnits(problem, stage) for stage in range(problem.num_stages))
        return [each for each in units if each.number(near.part, near.relaxation) >= 1.0]

    def lasts_whole_steps(self, bound: Bound) -> bool:
        """Whether a stage lasts whole steps, or is left unfilled."""
        return self._step_level(bound.near) is not None

    def lasting(self, region: Region, share: float, other: Region) -> Region:
        """A region where stages last this share longer of what they last longer in another."""
        makespan = region.relaxation.makespan
        longer = makespan + share * np.maximum(other.relaxation.makespan - makespan, 0.0)
        part = region.part.lasting(np.maximum(region.part.program.lower, longer))
        return Region(part, self._relax(part.program, region.relaxation.starting_point))

    def with_fewer_steps(self, bound: Bound) -> Iterator[Region]:
        """All placements where a stage lasts so many whole steps at most: as many as in the root's relaxation, then one fewer each time,
        while the relaxation stays below the bound."""
        near, root = self._step_level(bound.near), bound.root
        if near is None:
            return
        level = self._steps.level_above(near, root.relaxation.makespan)
        while level.whole > 0.0:
            program = self._steps.filled(root.part, level)
            relaxation = self._relax(program, root.relaxation.starting_point)
            if self.clock.is_over or relaxation.bound + self.fixed_us > bound.value_us:
                return
            yield Region(replace(root.part, program=program), relaxation)
            level = replace(level, whole=level.whole - 1.0)

    def cases_below(self, bound: Bound, region: Region, value: float) -> list[Region]:
        """Placements in a region with a sum of s up to `value`: where a stage lasts whole steps, those of each case."""
        level = self._step_level(bound.near)
        return [region] if level is None else self._in_cases(level, region, value)

    def _in_cases(self, level: StepLevel, region: Region, value: float) -> list[Region]:
        """What is left of a region below a value in each case of how long a stage lasts."""
        start = region.relaxation.starting_point
        return self._all_below((Region(part, self._relax(part.program, start)) for part in self._steps.cases(region.part, level)), value)

    def _all_below(self, regions: Iterable[Region], value: float) -> list[Region]:
        """What is left of each region below a value, if anything is."""
        below = (self.below(region, value) for region in regions)
        return [region for region in below if region is not None]

    def with_a_step_more(self, bound: Bound, region: Region, value: float) -> Region | None:
        """Likewise, where a stage lasts one whole step more than near the bound; None where there are none."""
        level = self._step_level(bound.near)
        if level is None:
            return None
        part = replace(region.part, program=self._steps.above(region.part, level))
        return self.below(Region(part, self._relax(part.program, region.relaxation.starting_point)), value)

    def candidates(self, bound: Bound, value_us: float) -> tuple[Bools, Floats]:
        """[O] the options that a placement with an objective up to `value_us` may have, and what each adds to the bound.

        Of the root's relaxation: that of fewer placements drops more options, and searches among what it leaves end worse. A
        table that is left without, so that there is no such placement, keeps all that it may use.
        """
        value, region = value_us - bound.fixed_us, bound.root
        program = region.part.program
        keep = self._within(region.part, region.relaxation, value) & program.usable
        keep &= self._short_enough(region.part, program.lower, value)
        keep = or_all(program.first, keep, program.usable)
        kept = region.part.spread(keep.astype(np.float64), 0.0, 1.0) > 0
        return kept, np.where(kept, region.part.spread(np.where(keep, region.relaxation.reduced_cost, 0.0), 0.0, 0.0), 0.0)

    def below(self, region: Region, value: float) -> Region | None:
        """What placements in `region` with a sum of s up to `value` must keep to; None where there are none.

        Each round drops the options that no such placement can have: too dear by their reduced cost, or with a unit
        longer than its stage may last when no other stage can be shorter than its own least. Fewer options raise the
        bound and those least makespans, which may drop more.
        """
        part, relaxation = region.part, region.relaxation
        for _ in range(FIXING_ROUNDS):
            options, room = len(part.options), value - float(part.program.lower.sum())
            keep = self._within(part, relaxation, value)
            if not keep.all():
                smaller = part.only(keep)
                start = relaxation.starting_point_of(np.searchsorted(part.options, smaller.options))
                part, relaxation = smaller, self._relax(smaller.program, start)
                if relaxation.bound > value * (1 + BOUND_ROUNDING):
                    return None
                keep = self._within(part, relaxation, value)
            if self._short_enough(part, relaxation.makespan, value)[keep].all():
                break
            lower = self._least_makespans(part.program, relaxation, value)
            if lower.sum() > value * (1 + BOUND_ROUNDING):
                return None
            keep &= self._short_enough(part, lower, value)
            smaller = part.lasting(lower).only(keep)
            start = relaxation.starting_point_of(np.searchsorted(part.options, smaller.options))
            part, relaxation = smaller, self._relax(smaller.program, start)
            if relaxation.bound > value * (1 + BOUND_ROUNDING):
                return None
            drops_few = len(part.options) > max(WORTH_ANOTHER * options, MANY_OPTIONS) and value - lower.sum() > WORTH_ANOTHER * room
            if keep.all() or drops_few:
                break
        return Region(part, relaxation)

    def _within(self, part: ReducedProgram, relaxation: Relaxation, value: float) -> Bools:
        """Options of the part that cost no more than `value` leaves, taken as far as they are at least where they are taken at all."""
        priced = np.isfinite(relaxation.reduced_cost)
        least = np.where(priced, np.where(priced, relaxation.reduced_cost, 0.0) * self.share[part.options], np.inf)
        return np.asarray(least <= value - relaxation.bound + BOUND_ROUNDING * value)

    def _short_enough(self, part: ReducedProgram, lower: Floats, value: float) -> Bools:
        """Options of the part whose units leave room for stages of at least `lower` within `value`."""
        largest = self.longest[part.options]
        upper = (value - (lower.sum() - lower)) * (1 + BOUND_ROUNDING)
        within = np.maximum(largest, lower).sum(axis=1) <= value * (1 + BOUND_ROUNDING)
        return np.asarray((largest <= upper).all(axis=1) & within)

    def _relax(self, program: Program, start: StartingPoint | None = None) -> Relaxation:
        return relax(program, start, self.clock)

    def _least_makespans(self, program: Program, relaxation: Relaxation, value: float) -> Floats:
        """The least that each s can be while their sum stays within `value`, where that may be well above what is known."""
        lower = program.lower.copy()
        unknown = np.flatnonzero(relaxation.makespan - lower > LEAST_RISE_OF_CUTS * (value - lower.sum()))
        if len(lower) > 1 and len(unknown):
            least = least_makespans(replace(program, budget=value), relaxation.starting_point, unknown, self.clock)
            lower[unknown] = np.maximum(lower[unknown], least)
        return lower

    def _tighten(self, relaxation: Relaxation) -> tuple[Program, Relaxation]:
        """Add violated single-table cuts, round by round; where there are none, packing cuts."""
        program, packing_rounds = self.program, self._packing_rounds
        packing = PackingCuts(self.problem) if packing_rounds and isinstance(self.problem, Cover) else None
        for _ in range(CUT_ROUNDS):
            if self.clock.is_over:
                break
            coefficient, capacity, stage = self.cuts.violated(program, relaxation)
            if not len(stage) and packing is not None and packing_rounds:
                packing_rounds -= 1
                coefficient, capacity, stage = packing.violated(relaxation)
            if not len(stage):
                break
            tighter = replace(program, rows=program.rows.extended(coefficient, capacity, stage))
            found = self._relax(tighter, relaxation.starting_point)
            if self.clock.is_over and found.bound < relaxation.bound:
                break  # it was cut off
            program, relaxation = tighter, found
        return program, relaxation
