"""The proven lower bound: the class relaxation, tightened by what single tables force.

docs/bounds.md states each bound and proves it. Prices of options (reduced costs) guide the search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solver.bound_lp import Program, Relaxation, relax
from solver.bound_rows import aggregate, first_option, largest_unit, usable_options, world_load
from solver.problem import Bools, Floats, Ints, Problem

CUT_ROUNDS = 12
CUTS_PER_STAGE = 8
VIOLATION = 1e-4
"""Of the makespan: cuts violated by less are not worth a row."""
FIRST_STEP = 0.005
"""Of the bound: the first value tried above it."""
PRECISION = 2e-4
"""Of the bound: how closely the largest refuted value is found."""
REFUTE_ROUNDS = 6
ROUNDING = 1e-9


@dataclass(frozen=True)
class Bound:
    """`value_us` holds for every placement; infinity where none exists."""

    value_us: float
    name: str
    fixed_us: float
    """The part of the objective that no choice changes."""
    program: Program
    """What placements near the bound must keep to."""
    relaxation: Relaxation
    """Of `program`."""
    usable: Bools
    """[O] options that any placement may have."""
    root: Relaxation
    """Over all of them."""

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
        relaxation = relax(self.program)
        if not relaxation.feasible:
            return Bound(np.inf, "class relaxation", self.fixed_us, self.program, relaxation, self.program.usable, relaxation)
        self.program, relaxation = self._tighten(relaxation)
        root, final = relaxation, relaxation
        proven, name = relaxation.bound, "class relaxation"
        step = FIRST_STEP
        program, low, high = self.program, proven, np.inf
        while (high - low) > PRECISION * (low + self.fixed_us):
            value = low + step * (low + self.fixed_us) if np.isinf(high) else (low + high) / 2
            below = self.below(relaxation, value)
            if below is None:
                low, step = value, step * 2
            else:
                high, (program, last) = value, below
                low = max(low, last.bound)
                final = last
            if step > 1e3:
                break
        if low > proven:
            proven, name = low, "class relaxation, values refuted"
        return Bound(self.fixed_us + proven, name, self.fixed_us, program, final, self.program.usable, root)

    def below(self, relaxation: Relaxation, value: float) -> tuple[Program, Relaxation] | None:
        """What placements with a sum of s up to `value` must keep to, relaxed; None where there are none."""
        program = replace(self.program, budget=value)
        for _ in range(REFUTE_ROUNDS):
            usable = program.usable & (relaxation.reduced_cost <= value - relaxation.bound + ROUNDING * value)
            lower = self._least_makespans(replace(program, usable=usable), relaxation.x > 0)
            if lower.sum() > value * (1 + ROUNDING):
                return None
            upper = value - (lower.sum() - lower)
            usable &= (self.cuts.largest <= upper * (1 + ROUNDING)).all(axis=1)
            usable &= np.maximum(self.cuts.largest, lower).sum(axis=1) <= value * (1 + ROUNDING)
            settled = not (program.usable & ~usable).any()
            program = replace(program, usable=usable, lower=lower)
            relaxation = relax(replace(program, budget=np.inf), relaxation.x > 0)
            if relaxation.bound > value * (1 + ROUNDING):
                return None
            if settled:
                break
        return program, relaxation

    def _least_makespans(self, program: Program, start: Bools) -> Floats:
        """The least that each s can be within the budget."""
        if len(program.lower) == 1:
            return program.lower
        least = [relax(replace(program, price=price), start).bound for price in np.eye(len(program.lower))]
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
