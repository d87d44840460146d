"""The proven lower bound: the class relaxation, tightened by what single tables force.

docs/bounds.md states each bound and proves it. Prices of options (reduced costs) guide the search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solver.bound_lp import Program, Relaxation, relax
from solver.bound_part import Part
from solver.bound_rows import aggregate, first_option, largest_unit, usable_options, world_load
from solver.problem import Bools, Floats, Ints, Problem

CUT_ROUNDS = 12
CUTS_PER_STAGE = 8
VIOLATION = 1e-4
"""Of the makespan: cuts violated by less are not worth a row."""
FIRST_STEP = 0.005
"""Of the bound: the first value tried above it."""
PRECISION = 5e-4
"""Of the bound: how closely the largest refuted value is found."""
REFUTE_ROUNDS = 6
LAST_STEP = 1e3
ROUNDING = 1e-9


@dataclass(frozen=True)
class Region:
    """Placements with an objective up to some value: options that one of them may have, and their relaxation."""

    part: Part
    relaxation: Relaxation
    """Of `part.program`."""


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
    """Those within a little of the bound."""

    @property
    def feasible(self) -> bool:
        return bool(np.isfinite(self.value_us))


class Bounder:
    """Proves lower bounds on one problem."""

    def __init__(self, problem: Problem) -> None:
        stages = problem.num_stages
        self.fixed_us = problem.constant_us + float(problem.stage_base_us.sum())
        self.cuts = _SingleTableCuts(problem)
        self.program = Program(
            rows=aggregate(problem),
            first=first_option(problem),
            usable=usable_options(problem),
            lower=np.zeros(stages),
            price=np.ones(stages),
        )
        if (problem.hbm_capacity < 0).any() or (problem.ddr_capacity < 0).any():
            self.program = replace(self.program, usable=np.zeros_like(self.program.usable))

    def bound(self) -> Bound:
        """The class relaxation with cuts, raised by refuting values above it."""
        root = Region(Part.of(self.program), relax(self.program))
        if not root.relaxation.feasible:
            return Bound(np.inf, "class relaxation", self.fixed_us, root, root)
        self.program, relaxation = self._tighten(root.relaxation)
        root = region = Region(Part.of(self.program), relaxation)
        low, high, step = relaxation.bound, np.inf, FIRST_STEP
        while high - low > PRECISION * (low + self.fixed_us) and step < LAST_STEP:
            value = low + step * (low + self.fixed_us) if np.isinf(high) else (low + high) / 2
            below = self.below(region, value)
            if below is None:
                low, step = value, step * 2
            else:
                low, high, region = max(low, below.relaxation.bound), value, below
        name = "class relaxation" if low <= relaxation.bound else "class relaxation, refuted values"
        return Bound(self.fixed_us + low, name, self.fixed_us, root, region)

    def below(self, region: Region, value: float) -> Region | None:
        """What placements in `region` with a sum of s up to `value` must keep to; None where there are none.

        Each round drops the options that no such placement can have: too dear by their reduced cost, or with a unit
        longer than its stage may last when no other stage can be shorter than its own least. Fewer options raise the
        bound and those least makespans, which may drop more.
        """
        part, relaxation = region.part, region.relaxation
        for _ in range(REFUTE_ROUNDS):
            keep = self._within(relaxation, value)
            if not keep.all():
                smaller = part.only(keep)
                start = (relaxation.x > 0)[np.searchsorted(part.options, smaller.options)]
                part, relaxation = smaller, relax(smaller.program, start)
                if relaxation.bound > value * (1 + ROUNDING):
                    return None
                keep = self._within(relaxation, value)
            if self._short_enough(part, relaxation.makespan, value)[keep].all():
                break
            lower = self._least_makespans(part.program, relaxation.x > 0, value)
            if lower.sum() > value * (1 + ROUNDING):
                return None
            keep &= self._short_enough(part, lower, value)
            smaller = part.lasting(lower).only(keep)
            start = (relaxation.x > 0)[np.searchsorted(part.options, smaller.options)]
            part, relaxation = smaller, relax(smaller.program, start)
            if relaxation.bound > value * (1 + ROUNDING):
                return None
            if keep.all():
                break
        return Region(part, relaxation)

    def _within(self, relaxation: Relaxation, value: float) -> Bools:
        return relaxation.reduced_cost <= value - relaxation.bound + ROUNDING * value

    def _short_enough(self, part: Part, lower: Floats, value: float) -> Bools:
        """Options of the part whose units leave room for stages of at least `lower` within `value`."""
        largest = self.cuts.largest[part.options]
        upper = (value - (lower.sum() - lower)) * (1 + ROUNDING)
        within = np.maximum(largest, lower).sum(axis=1) <= value * (1 + ROUNDING)
        return np.asarray((largest <= upper).all(axis=1) & within)

    def _least_makespans(self, program: Program, start: Bools, value: float) -> Floats:
        """The least that each s can be while their sum stays within `value`."""
        if len(program.lower) == 1:
            return program.lower
        budgeted = replace(program, budget=value)
        least = [relax(replace(budgeted, price=price), start).bound for price in np.eye(len(program.lower))]
        return np.maximum(program.lower, least)

    def _tighten(self, relaxation: Relaxation) -> tuple[Program, Relaxation]:
        """Add violated single-table cuts, round by round."""
        program = self.program
        for _ in range(CUT_ROUNDS):
            coefficient, stage = self.cuts.violated(program, relaxation)
            if not len(stage):
                break
            program = replace(program, rows=program.rows.extended(coefficient, stage))
            relaxation = relax(program, start=relaxation.x > 0)
        return program, relaxation


class _SingleTableCuts:
    """s[k] >= the largest unit of table t in stage k + what the other tables put on every trainer."""

    def __init__(self, problem: Problem) -> None:
        self.table = problem.option_table
        self.largest = largest_unit(problem)
        self.world = world_load(problem)
        self.taken: set[tuple[int, int]] = set()

    def violated(self, program: Program, relaxation: Relaxation) -> tuple[Floats, Ints]:
        """Rows [O, cuts] and their stages: the most violated ones of each stage."""
        x, makespan = relaxation.x, relaxation.makespan
        alone = np.add.reduceat(x[:, None] * np.maximum(self.largest - self.world, 0.0), program.first[:-1], axis=0)
        over = alone + x @ self.world - makespan
        rows: list[Floats] = []
        stages: list[int] = []
        for stage in range(len(makespan)):
            for table in np.argsort(-over[:, stage], kind="stable")[:CUTS_PER_STAGE]:
                if over[table, stage] > VIOLATION * makespan.sum() and (int(table), stage) not in self.taken:
                    self.taken.add((int(table), stage))
                    rows.append(np.where(self.table == table, np.maximum(self.largest, self.world)[:, stage], self.world[:, stage]))
                    stages.append(stage)
        return np.stack(rows, axis=1) if rows else np.empty((len(x), 0)), np.array(stages, dtype=np.int64)
