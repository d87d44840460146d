"""Stages whose loads come in equal steps: a device that holds nothing else takes a whole number of them.

So a stage lasts a whole number of steps, or what devices hold below that is limited. docs/explanation/bounds.md proves both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.solver.model.indexing import devices_covered, first_option, sum_by_option, unit_option
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope
from emplace.solver.presolve.granularity import LEAST_QUANTUM, common_divisor
from emplace.solver.relaxation.program import Program
from emplace.solver.relaxation.reduced_program import ReducedProgram

FINER = 8
"""Into so many parts a step of single devices is cut at most, for options that load several devices."""
WHOLE = 1e-8
"""A load this close to a whole number of such parts, in steps, is one."""


@dataclass(frozen=True)
class StepLevel:
    """Where the relaxation leaves a stage: at `whole` steps of `step_us` or more, but less than one more."""

    place: int
    """In `GranularStages.stage`."""
    whole: float
    step_us: float


class GranularStages:
    """Where all devices are alike, the Q stages in which single devices' loads come in equal steps."""

    def __init__(self, problem: Problem) -> None:
        self.single = problem.option_scope == Scope.DEVICE
        touched = np.diff(problem.option_first_unit)[:, None] * devices_covered(problem)
        self.touched = touched[:, 0] / problem.num_devices
        """[O] share of the devices that an option loads, at least: where nodes differ, as for `mean_us`."""
        self.mean_us = sum_by_option(problem, problem.unit_time_us[:, 0]) * devices_covered(problem)[:, :1] / problem.num_devices
        self.slack = WHOLE * problem.num_tables
        """In steps: how far a device's load may be from a whole number, as it has one unit of each table at most."""
        step_us = _steps_us(problem, self.single, self.mean_us) if problem.num_kinds == 1 else np.zeros(problem.num_stages)
        self.stage = np.flatnonzero(step_us)
        self.part_us, self.parts, self.irregular = _in_parts(problem, self.single, self.stage, step_us[self.stage])

    def level(self, part: ReducedProgram, makespan_us: Floats) -> StepLevel | None:
        """Where one step more would make the stages longest; None where single devices' loads do not come in steps."""
        left = part.left[self.single[part.left]]
        usual = makespan_us[self.stage]
        step_us = self.part_us * np.gcd.reduce(self.parts[left], axis=0) * ~self.irregular[left].any(axis=0)
        has = np.flatnonzero(step_us > LEAST_QUANTUM * usual)
        if len(has) == 0:
            return None
        whole = np.floor(usual[has] / step_us[has] + self.slack)
        place = int(np.argmax((whole + 1) * step_us[has] - usual[has]))
        return StepLevel(int(has[place]), float(whole[place]), float(step_us[has[place]]))

    def level_above(self, level: StepLevel, makespan_us: Floats) -> StepLevel:
        """The fewest whole steps of the stage that are no less than it lasts in another relaxation."""
        return replace(level, whole=float(np.ceil(makespan_us[self.stage[level.place]] / level.step_us - self.slack)))

    def cases(self, part: ReducedProgram, level: StepLevel) -> list[ReducedProgram]:
        """`part` where the stage lasts one step more, where it lasts less than that but more than whole steps, and where it does not last
        longer than these: every placement is in one of them."""
        programs = [self.above(part, level), self._between(part, level), self.filled(part, level)]
        return [replace(part, program=program) for program in programs if program is not None]

    def above(self, part: ReducedProgram, level: StepLevel) -> Program:
        """The stage lasts one step more."""
        return self._lasting(part.program, level, (level.whole + 1) * level.step_us)

    def _between(self, part: ReducedProgram, level: StepLevel) -> Program | None:
        """The stage does not, yet a device holds more than `level.whole` steps: no less than the finest part of a step more. Devices that
        hold whole steps only have at most `level.whole` of them, all others less than one more. None where no device holds a part of one."""
        parts, irregular = self.parts[:, level.place], self.irregular[:, level.place]
        odd = irregular | (parts % round(level.step_us / self.part_us[level.place]) > 0)
        if not odd[part.left].any():
            return None
        finest_us = 0.0 if irregular[part.left].any() else self.part_us[level.place] * np.gcd.reduce(parts[part.left])
        more_us = odd * self.touched * (level.step_us * (1 + self.slack) - finest_us)
        longer = self._lasting(part.program, level, level.whole * level.step_us + finest_us)
        return self._limited(replace(part, program=longer), level, more_us)

    def filled(self, part: ReducedProgram, level: StepLevel) -> Program:
        """No device holds more than `level.whole` steps."""
        return self._limited(part, level, np.zeros_like(self.touched))

    def _lasting(self, program: Program, level: StepLevel, least_us: float) -> Program:
        lower, stage = program.lower.copy(), self.stage[level.place]
        lower[stage] = max(lower[stage], least_us - self.slack * level.step_us)
        return replace(program, lower=lower)

    def _limited(self, part: ReducedProgram, level: StepLevel, more_us: Floats) -> Program:
        """Devices hold `level.whole` steps in the mean at most, and `more_us` ([O]) for the options that are taken."""
        limit_us = (level.whole + self.slack) * level.step_us
        share = (self.mean_us[:, self.stage[level.place]] - more_us) / max(limit_us, level.step_us)
        capacity = limit_us / max(limit_us, level.step_us) - share[part.settled].sum()
        rows = part.program.rows.extended(share[part.options][:, None], np.array([capacity]), np.array([-1]))
        return replace(part.program, rows=rows)


def _steps_us(problem: Problem, single: Bools, mean_us: Floats) -> Floats:
    """[K] what all loads of single devices are multiples of; 0 where there is nothing worth it."""
    usual = np.maximum.reduceat(mean_us * single[:, None], first_option(problem)[:-1], axis=0).sum(axis=0)
    loads = problem.unit_time_us[single[unit_option(problem)], 0]
    step_us = np.array([common_divisor(loads[:, stage], usual[stage]) for stage in range(problem.num_stages)])
    return np.where(step_us > LEAST_QUANTUM * usual, step_us, 0.0)


def _in_parts(problem: Problem, single: Bools, stage: Ints, step_us: Floats) -> tuple[Floats, Ints, Bools]:
    """[Q] parts of a step, [O, Q] the largest number of them that all loads of an option are multiples of, and whether they are none."""
    option = unit_option(problem)
    loads, alone = problem.unit_time_us[:, 0, stage], single[option]
    whole = np.rint(loads / step_us)
    # Least squares: the divisor was found among rounded loads.
    fitted = (loads * whole)[alone].sum(axis=0) / np.maximum((whole * whole)[alone].sum(axis=0), 1.0)
    counts = np.rint(loads / fitted * FINER)
    off = np.abs(loads / fitted * FINER - counts) > WHOLE * FINER
    parts, irregular = np.zeros((2, problem.num_options, len(stage)), dtype=np.int64)
    np.gcd.at(parts, option, counts.astype(np.int64))
    np.maximum.at(irregular, option, off)
    return fitted / FINER, parts, irregular.astype(bool)
