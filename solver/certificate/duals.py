"""Weights from the duals of linear programs: the class relaxation of a program of placement/proof/."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.placement.certificate import FullestRank, LargestShard, Weights
from emplace.placement.proof.choices import TYPES
from emplace.placement.proof.fullest import on_fullest, uncounted_us
from emplace.placement.proof.program import ProofProgram
from emplace.placement.stages import PLACED_STAGES
from emplace.solver.budget import LEAST_VIOLATION
from emplace.solver.model.problem import Bools, Floats, Ints
from emplace.solver.relaxation.column_generation import relax
from emplace.solver.relaxation.packing_cuts import PACKING_ROUNDS, WholeTables
from emplace.solver.relaxation.program import Program, Relaxation, Rows
from emplace.solver.relaxation.single_table_cuts import CUT_ROUNDS, CUTS_PER_STAGE

SHAVED = 1 - 1e-12
"""Duals are scaled by it, so that shares don't come to more than 1 by rounding."""
STAGES = len(PLACED_STAGES)
ALL_TYPES = np.ones(len(TYPES), dtype=bool)
Cut = LargestShard | FullestRank
"""What a stage is as long as; the share is 1."""


@dataclass(frozen=True)
class Relaxed:
    """A linear program over all choices of a program, with its cuts and its solution."""

    program: ProofProgram
    linear: Program
    cuts: list[Cut]
    found: Relaxation

    @property
    def weights(self) -> Weights:
        """Those that prove most of the step."""
        return weights_of(self.program, self.found.dual, self.cuts)

    def of_single_stages(self, room_us: float) -> list[Weights]:
        """Those that prove most of each stage alone, where all together fit the room."""
        # From nothing: at the basis of another program, bytes that no choice has may weigh more than a proof can say.
        found = [relax(replace(self.linear, price=price, budget=room_us)) for price in np.eye(STAGES)]
        return [weights_of(self.program, each.dual / (1 + each.dual[-1]), self.cuts) for each in found if each.feasible]


def relaxed(program: ProofProgram, types: Bools, lower_us: Floats | None = None) -> Relaxed | None:
    """The relaxation of placements with these sharding types only, and stages of at least `lower_us` ([K]) beyond what they take without tables.

    None where they don't fit.
    """
    choices = program.choices
    lower_us = np.zeros(STAGES) if lower_us is None else lower_us
    linear = Program(_rows(program), choices.first(program.tables), types[choices.kind], lower_us, np.ones(STAGES))
    found, cuts, packing_rounds = relax(linear), list[Cut](), PACKING_ROUNDS
    for _ in range(CUT_ROUNDS):
        new: list[Cut] = [cut for cut in _largest(program, linear, found) if cut not in cuts] if found.feasible else []
        if not new and packing_rounds and found.feasible:
            packing_rounds -= 1
            new = [cut for cut in _fullest(program, found) if cut not in cuts]
        if not new:
            break
        linear, cuts = replace(linear, rows=linear.rows.extended(*_cut_rows(program, new))), [*cuts, *new]
        found = relax(linear)
    return Relaxed(program, linear, cuts, found) if found.feasible else None


def memory_weights(program: ProofProgram, types: Bools) -> Weights:
    """The weights of bytes under which all tables are furthest over, with these sharding types only."""
    rows, choices = _rows(program), program.choices
    memory = rows.memory
    over = Rows(rows.coefficient[:, memory], rows.capacity[memory], np.ones(int(memory.sum())), np.zeros(int(memory.sum()), np.int64))
    linear = Program(over, choices.first(program.tables), types[choices.kind], np.zeros(1), np.ones(1))
    return weights_of(program, np.concatenate([np.zeros(int((~memory).sum())), relax(linear).dual]), [])


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


def _cut_rows(program: ProofProgram, cuts: list[Cut]) -> tuple[Floats, Floats, Ints]:
    """[n, cuts] what choices add to a stage, what is taken off, and the stages."""
    share, choices = program.slowest_share, program.choices
    added, taken_off = [], []
    for cut in cuts:
        if isinstance(cut, FullestRank):
            added.append(share * on_fullest(program, cut, choices))
            taken_off.append(share * float(uncounted_us(program, cut)))
        else:
            stage, is_own = PLACED_STAGES.index(cut.stage), choices.table == program.places[cut.table]
            added.append(share * np.where(is_own, choices.own_us[:, stage], choices.everywhere_us[:, stage]))
            taken_off.append(0.0)
    return np.stack(added, axis=1), np.array(taken_off), np.array([PLACED_STAGES.index(cut.stage) for cut in cuts])


def _fullest(program: ProofProgram, found: Relaxation) -> list[FullestRank]:
    """Where the rank with most whole tables takes longer than the stage."""
    choices, share = program.choices, program.slowest_share
    names = [table.name for table in program.question.model.tables]
    option = np.flatnonzero(choices.whole_on >= 0)
    kind = choices.whole_on[option]
    whole = WholeTables(option, choices.table[option], kind, share * choices.time_us[option, kind], program.classes.sizes)
    return [
        FullestRank(
            of_class=cut.kind,
            stage=PLACED_STAGES[cut.stage],
            tables=tuple(names[table] for table in cut.tables),
            most_us=cut.least_us / share,
            share=1.0,
        )
        for cut in whole.violated(found.x, found.makespan, share * found.x @ choices.everywhere_us)
        if cut.least_us > 0
    ]


def _largest(program: ProofProgram, linear: Program, found: Relaxation) -> list[LargestShard]:
    """Where a rank with the largest shard of a table takes longer than the stage."""
    own_us, everywhere_us = (
        program.slowest_share * np.add.reduceat(found.x[:, None] * each, linear.first[:-1], axis=0)
        for each in (program.choices.own_us, program.choices.everywhere_us)
    )
    over = own_us - everywhere_us + everywhere_us.sum(axis=0) - found.makespan
    least = LEAST_VIOLATION * found.makespan.sum()
    most = [(table, stage) for stage in range(STAGES) for table in np.argsort(-over[:, stage], kind="stable")[:CUTS_PER_STAGE].tolist()]
    names = [table.name for table in program.question.model.tables]
    return [LargestShard(table=names[table], stage=PLACED_STAGES[stage], share=1.0) for table, stage in most if over[table, stage] > least]


def weights_of(program: ProofProgram, dual: Floats, cuts: list[Cut]) -> Weights:
    """From the duals of the rows, of cuts, and of a budget."""
    sizes = program.classes.sizes
    of_time, of_memory, of_cuts, _ = np.split(dual, np.cumsum([len(sizes) * STAGES, len(sizes) + len(program.ddr_capacity), len(cuts)]))
    time = of_time.reshape(-1, STAGES) / sizes[:, None] * SHAVED
    hbm, ddr = np.split(of_memory, [len(sizes)])
    shared = [cut.model_copy(update={"share": share}) for cut, share in zip(cuts, (of_cuts * SHAVED).tolist(), strict=True) if share > 0]
    return Weights(
        stages=tuple(tuple(row) for row in time.tolist()),
        hbm=tuple((hbm / _units(program.hbm_capacity)).tolist()),
        ddr=tuple((ddr / _units(program.ddr_capacity)).tolist()),
        largest=tuple(each for each in shared if isinstance(each, LargestShard)),
        fullest=tuple(each for each in shared if isinstance(each, FullestRank)),
    )


def _units(capacity: tuple[int, ...]) -> Floats:
    return np.maximum(np.array(capacity, dtype=np.float64), 1.0)
