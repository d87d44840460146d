"""Weights from the duals of linear programs: the class relaxation of a program of placement/proof/."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.placement.certificate import LargestShard, Weights
from emplace.placement.proof.choices import TYPES
from emplace.placement.proof.program import ProofProgram
from emplace.placement.stages import PLACED_STAGES
from emplace.solver.budget import LEAST_VIOLATION
from emplace.solver.model.problem import Bools, Floats
from emplace.solver.relaxation.bound import CUT_ROUNDS, CUTS_PER_STAGE
from emplace.solver.relaxation.column_generation import relax
from emplace.solver.relaxation.program import Program, Relaxation, Rows

SHAVED = 1 - 1e-12
"""Duals are scaled by it, so that shares don't come to more than 1 by rounding."""
STAGES = len(PLACED_STAGES)
ALL_TYPES = np.ones(len(TYPES), dtype=bool)
Cut = tuple[int, int]
"""Table and stage: the stage lasts as long as the table's largest shard takes, and what every rank has of the others."""


@dataclass(frozen=True)
class Relaxed:
    """A linear program over all choices of a program, with its cuts and its solution."""

    program: ProofProgram
    linear: Program
    cuts: tuple[Cut, ...]
    found: Relaxation

    @property
    def weights(self) -> Weights:
        """Those that prove most of the step."""
        return weights_of(self.program, self.found.dual, self.cuts)

    def of_single_stages(self, room_us: float) -> list[Weights]:
        """Those that prove most of each stage alone, where all together fit the room."""
        start = self.found.x > 0
        found = [relax(replace(self.linear, price=price, budget=room_us), start) for price in np.eye(STAGES)]
        return [weights_of(self.program, each.dual / (1 + each.dual[-1]), self.cuts) for each in found if each.feasible]


def relaxed(program: ProofProgram, types: Bools, lower_us: Floats | None = None) -> Relaxed | None:
    """The relaxation of placements with these sharding types only, and stages of at least `lower_us` ([K]) beyond what they take without tables.

    None where they don't fit.
    """
    choices = program.choices
    lower_us = np.zeros(STAGES) if lower_us is None else lower_us
    linear = Program(_rows(program), choices.first(program.tables), types[choices.kind], lower_us, np.ones(STAGES))
    found, cuts = relax(linear), tuple[Cut, ...]()
    for _ in range(CUT_ROUNDS):
        new = _violated(program, linear, found, cuts) if found.feasible else []
        if not new:
            break
        own_us, everywhere_us = (program.slowest_share * each for each in (choices.own_us, choices.everywhere_us))
        each = [np.where(choices.table == table, own_us[:, stage], everywhere_us[:, stage]) for table, stage in new]
        rows = linear.rows.extended(np.stack(each, axis=1), np.zeros(len(new)), np.array([stage for _, stage in new]))
        linear, cuts = replace(linear, rows=rows), (*cuts, *new)
        found = relax(linear, start=found.x > 0)
    return Relaxed(program, linear, cuts, found) if found.feasible else None


def memory_weights(program: ProofProgram, types: Bools) -> Weights:
    """The weights of bytes under which all tables are furthest over, with these sharding types only."""
    rows, choices = _rows(program), program.choices
    memory = rows.memory
    over = Rows(rows.coefficient[:, memory], rows.capacity[memory], np.ones(int(memory.sum())), np.zeros(int(memory.sum()), np.int64))
    linear = Program(over, choices.first(program.tables), types[choices.kind], np.zeros(1), np.ones(1))
    return weights_of(program, np.concatenate([np.zeros(int((~memory).sum())), relax(linear).dual]), ())


def _rows(program: ProofProgram) -> Rows:
    """For each class and stage, then the HBM of each class and the system memory of each group."""
    choices, sizes, share = program.choices, program.classes.sizes.astype(np.float64), program.slowest_share
    classes = len(sizes)
    mean_us = choices.time_us.sum(axis=1, keepdims=True) / sizes.sum()
    time_us = share * choices.time_us / sizes[None, :, None] + (1 - share) * mean_us
    hbm_unit, ddr_unit = _units(program.hbm_capacity), _units(program.ddr_capacity)
    memory = classes + len(ddr_unit)
    capacity = [np.array(program.hbm_capacity) / hbm_unit, np.array(program.ddr_capacity) / ddr_unit]
    return Rows(
        coefficient=np.hstack([time_us.reshape(len(time_us), -1), choices.hbm / hbm_unit, choices.ddr / ddr_unit]),
        capacity=np.concatenate([np.zeros(classes * STAGES), *capacity]),
        slope=np.concatenate([np.ones(classes * STAGES), np.zeros(memory)]),
        stage=np.concatenate([np.tile(np.arange(STAGES), classes), np.full(memory, -1)]),
    )


def _violated(program: ProofProgram, linear: Program, found: Relaxation, taken: tuple[Cut, ...]) -> list[Cut]:
    """Where a rank with the largest shard of a table takes longer than the stage."""
    own_us, everywhere_us = (
        program.slowest_share * np.add.reduceat(found.x[:, None] * each, linear.first[:-1], axis=0)
        for each in (program.choices.own_us, program.choices.everywhere_us)
    )
    over = own_us - everywhere_us + everywhere_us.sum(axis=0) - found.makespan
    least = LEAST_VIOLATION * found.makespan.sum()
    most = [(table, stage) for stage in range(STAGES) for table in np.argsort(-over[:, stage], kind="stable")[:CUTS_PER_STAGE].tolist()]
    return [cut for cut in most if over[cut] > least and cut not in taken]


def weights_of(program: ProofProgram, dual: Floats, cuts: tuple[Cut, ...]) -> Weights:
    """From the duals of the rows, of cuts, and of a budget."""
    sizes = program.classes.sizes
    of_time, of_memory, of_cuts, _ = np.split(dual, np.cumsum([len(sizes) * STAGES, len(sizes) + len(program.ddr_capacity), len(cuts)]))
    time = of_time.reshape(-1, STAGES) / sizes[:, None] * SHAVED
    hbm, ddr = np.split(of_memory, [len(sizes)])
    names = [table.name for table in program.question.model.tables]
    return Weights(
        stages=tuple(tuple(row) for row in time.tolist()),
        hbm=tuple((hbm / _units(program.hbm_capacity)).tolist()),
        ddr=tuple((ddr / _units(program.ddr_capacity)).tolist()),
        largest=tuple(
            LargestShard(table=names[table], stage=PLACED_STAGES[stage], share=share)
            for (table, stage), share in zip(cuts, (of_cuts * SHAVED).tolist(), strict=True)
            if share > 0
        ),
    )


def _units(capacity: tuple[int, ...]) -> Floats:
    return np.maximum(np.array(capacity, dtype=np.float64), 1.0)
