"""The class relaxation where devices with a large unit are apart from all others.

A unit that nearly fills a device in one stage leaves little room there, and tables that fit beside it may be short in other stages too.
The class relaxation adds up all devices, so it gives what is left there to tables anywhere. docs/explanation/bounds.md proves the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emplace.solver.budget import BOUND_ROUNDING
from emplace.solver.model.indexing import devices_covered, max_by_option, min_by_option, sum_by_option
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope
from emplace.solver.relaxation.program import Program, Relaxation, Rows, StartingPoint
from emplace.solver.relaxation.reduced_program import ReducedProgram
from emplace.solver.relaxation.region import Region

LARGE = (0.6, 0.8)
"""Shares of a stage's limit: a unit is large from the first on, which is over a half, so that no device has two of them. Devices are of
one class where the same number of these shares are reached."""
LEAST_LIMIT = 1e-9
"""Share of all limits that one is at least: rows are in shares of it."""
ANYWHERE, UNFILLED = -1, 0
"""In place of a class: an option whose units may be on devices of any, and devices without a large unit."""


class Box(NamedTuple):
    """What every s is at least and at most: [K] each."""

    lower: Floats
    upper: Floats


class Summary(NamedTuple):
    """What is kept of a relaxation, which may have a hundred thousand options."""

    taken: Ints
    """Places of the program that it takes."""
    makespan: Floats
    """[K]"""
    dual: Floats
    """[R + 1]"""
    scale: float


@dataclass(frozen=True)
class DividedProgram:
    """A program with E options: those of a problem, each as often as there are classes of devices for its units."""

    program: Program
    option: Ints
    """[E] of the problem."""
    at: Ints
    """[E] class of the devices that its units are on."""
    class_rows: Ints
    """[classes, K] rows that limit the devices of one class in one stage, and that hold for the upper limits of a box."""
    unfilled_rows: Ints
    """[K] rows that limit devices without a large unit, and that hold for the lower limits of a box."""
    held: Floats
    """[classes, E] share of all devices that hold a large unit of the option."""
    limit: Floats
    """[K] the upper limits of the box, which rows of classes are in shares of."""
    start: StartingPoint
    """From the relaxation of the program that is divided."""

    @property
    def places(self) -> Ints:
        """[E] a number for each option on each class."""
        return self.option * (len(LARGE) + 2) + self.at

    def summary(self, relaxation: Relaxation) -> Summary:
        """What to keep of its relaxation."""
        return Summary(self.places[relaxation.x > 0], relaxation.makespan, relaxation.dual, relaxation.scale)

    def starting_point(self, near: Summary) -> StartingPoint:
        """From the relaxation of a program with the same rows."""
        return StartingPoint(np.isin(self.places, near.taken), near.dual, near.scale)

    def loss(self, relaxation: Relaxation, box: Box) -> Floats:
        """[K] how much lower the relaxation is as its rows hold for all of a box."""
        dual, share = relaxation.dual, self.held @ relaxation.x
        above = (dual[self.class_rows] * share[:, None]).sum(axis=0) * (1.0 - relaxation.makespan / self.limit)
        below = dual[self.unfilled_rows] * share.sum() * (relaxation.makespan - box.lower)
        return np.asarray(above + below)


class LargeUnits:
    """Units that are large in one stage, of a problem whose devices are all alike but for their capacities."""

    def __init__(self, problem: Problem, stage: int) -> None:
        self.problem, self.stage = problem, stage
        capacity = max(float(problem.hbm_capacity.max()), 1.0)
        loads = np.hstack([problem.unit_time_us[:, 0], problem.unit_hbm_bytes[:, :1] / capacity])
        self.each = max_by_option(problem, loads)
        """[O, K + 1] what the largest unit loads a device with: time in each stage, and HBM as a share of the most that a device has."""
        self.mean = sum_by_option(problem, loads) * devices_covered(problem)[:, :1] / problem.num_devices
        """[O, K + 1] what all units load, in the mean over all devices."""
        self.units = np.diff(problem.option_first_unit) / problem.num_devices
        alike = (self.each == min_by_option(problem, loads)).all(axis=1)
        self.single = problem.option_scope == Scope.DEVICE
        self.may_be_large = self.single & alike
        self.divides = alike & (problem.option_scope != Scope.WORLD)
        """[O] whether it makes no difference to sums of loads which unit is on which device."""

    def number(self, part: ReducedProgram, relaxation: Relaxation) -> float:
        """How many devices hold a large unit in a relaxation."""
        x, makespan_us = part.spread(relaxation.x, 0.0, 1.0), float(relaxation.makespan[self.stage])
        is_large = self.may_be_large & (self.each[:, self.stage] >= LARGE[0] * makespan_us) & (makespan_us > 0)
        return float((x * self.units)[is_large].sum()) * self.problem.num_devices

    def program(self, region: Region, box: Box) -> DividedProgram | None:
        """That of a region, for placements whose s are in a box; None where a table has no option left.

        Of the region's rows those count that have a dual, and those of the class relaxation.
        """
        part, relaxation = region.part, region.relaxation
        limit = np.append(np.maximum(box.upper, LEAST_LIMIT * float(box.upper.sum())), 1.0)
        left = np.sort(part.left)
        left = left[~self.single[left] | _fits(self.each[left], limit)]
        group = np.where(self.may_be_large, np.searchsorted(LARGE, self.each[:, self.stage] / limit[self.stage], side="right"), UNFILLED)
        option, at = self._divided(left, group, limit)
        first = np.searchsorted(self.problem.option_table[option], np.arange(self.problem.num_tables + 1))
        if (np.diff(first) == 0).any():
            return None
        held = np.array([(group[option] == each) * self.units[option] for each in range(1, len(LARGE) + 1)])
        old = part.program.rows
        kept = np.flatnonzero((relaxation.dual[:-1] > 0) | (np.arange(len(old.stage)) < self.problem.num_stages) | old.memory)
        shared = Rows(_coefficients(part, option, kept), old.capacity[kept], old.slope[kept], old.stage[kept])
        rows, class_rows, unfilled_rows = self._with_classes(shared, option, at, held, limit, np.append(box.lower, 1.0))
        usable = np.ones(len(option), dtype=bool)
        program = Program(rows, first, usable, box.lower, part.program.price)
        is_taken = (part.spread(relaxation.x, 0.0, 1.0)[option] > 0) & (at <= np.maximum(group[option], UNFILLED))
        dual = np.concatenate([relaxation.dual[kept], np.zeros(len(rows.stage) - len(kept)), relaxation.dual[-1:]])
        start = StartingPoint(is_taken, dual, relaxation.scale)
        return DividedProgram(program, option, at, class_rows, unfilled_rows, held, limit[:-1], start)

    def _divided(self, left: Ints, group: Ints, limit: Floats) -> tuple[Ints, Ints]:
        """[E] options, each once for every class of devices that has room for its units, and these classes."""
        large, small = left[group[left] > 0], left[(group[left] == 0) & self.divides[left]]
        others = left[(group[left] == 0) & ~self.divides[left]]
        found = [(large, group[large]), (others, np.full(len(others), ANYWHERE)), (small, np.full(len(small), UNFILLED))]
        for each in np.unique(group[large]).tolist():
            room = limit - self.each[large[group[large] == each]].min(axis=0)
            beside = small[~self.single[small] | _fits(self.each[small], room)]
            found.append((beside, np.full(len(beside), each)))
        option, at = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        order = np.argsort(option, kind="stable")
        return option[order], at[order]

    def _with_classes(self, shared: Rows, option: Ints, at: Ints, held: Floats, limit: Floats, least: Floats) -> tuple[Rows, Ints, Ints]:
        """The rows with those of each class, and of devices without a large unit; and where these are, by stage."""
        mean, stages = self.mean[option], self.problem.num_stages
        classes = np.arange(1, len(LARGE) + 1)
        of_classes = [np.where((at == each)[:, None], mean - held[each - 1][:, None] * limit, 0.0) / limit for each in classes]
        unfilled, share = np.where((at == UNFILLED)[:, None], mean, 0.0), held.sum(axis=0)[:, None]
        most = (unfilled + share * limit)[:, :-1] / limit[:-1]
        added = np.hstack([*of_classes, unfilled + share * least, most])
        of_stage = len(classes) * (stages + 1) + np.arange(stages)
        stage, capacity = np.full(added.shape[1], -1), np.zeros(added.shape[1])
        stage[of_stage], capacity[of_stage[-1] + 1 :] = np.arange(stages), 1.0
        place = len(shared.stage) + np.arange((len(classes) + 1) * (stages + 1)).reshape(-1, stages + 1)[:, :-1]
        return shared.extended(added, capacity, stage), place[:-1], place[-1]


def _fits(loads: Floats, room: Floats) -> Bools:
    return np.asarray((loads <= room * (1 + BOUND_ROUNDING)).all(axis=1))


def _coefficients(part: ReducedProgram, option: Ints, kept: Ints) -> Floats:
    """[E, kept] of the part's rows; what is settled is off their capacities already."""
    place = np.minimum(np.searchsorted(part.options, option), len(part.options) - 1)
    is_open = part.options[place] == option
    return np.asarray(np.where(is_open, part.program.rows.coefficient.T[kept][:, place], 0.0).T)
