"""Rows that say what a device with the largest unit of one table holds besides. docs/explanation/bounds.md proves them."""

from __future__ import annotations

import numpy as np

from emplace.solver.budget import LEAST_VIOLATION
from emplace.solver.model.problem import Floats, Ints, Problem
from emplace.solver.relaxation.aggregate import largest_unit, world_load
from emplace.solver.relaxation.program import Program, Relaxation

CUT_ROUNDS, CUTS_PER_STAGE, ENOUGH_CUTS = 12, 8, 40
"""Rounds of cuts, those added for each stage in a round, and how many of them are enough for no round to follow: with thousands
of tables hundreds are violated, and raise by next to nothing what ruling out values raises anyway."""


class SingleTableCuts:
    """On the device that carries the largest unit of table t, there is also what the other tables put on every device:

    s[k] >= both in stage k, and the HBM of the largest device >= both in bytes.
    """

    def __init__(self, problem: Problem) -> None:
        self.table = problem.option_table
        self.largest = largest_unit(problem)
        self.world = world_load(problem)
        self.has_trainers = bool(problem.device_is_trainer.any())
        self.taken: set[tuple[int, int]] = set()

    def violated(self, program: Program, relaxation: Relaxation) -> tuple[Floats, Floats, Ints]:
        """Rows [O, cuts], their capacities and stages (-1 for bytes): the most violated ones of each kind."""
        x, stages = relaxation.x, len(relaxation.makespan)
        if len(self.taken) >= ENOUGH_CUTS:
            return _no_rows(len(x))
        limit = np.append(relaxation.makespan, 1.0)
        tolerance = LEAST_VIOLATION * np.append(np.full(stages, relaxation.makespan.sum()), 1.0)
        alone = np.add.reduceat(x[:, None] * np.maximum(self.largest - self.world, 0.0), program.first[:-1], axis=0)
        over = alone + x @ self.world - limit
        cuts = [
            (int(table), column)
            for column in range(stages + self.has_trainers)
            for table in np.argsort(-over[:, column], kind="stable")[:CUTS_PER_STAGE]
            if over[table, column] > tolerance[column] and (int(table), column) not in self.taken
        ]
        self.taken.update(cuts)
        if not cuts:
            return _no_rows(len(x))
        larger = np.maximum(self.largest, self.world)
        rows = [np.where(self.table == table, larger[:, column], self.world[:, column]) for table, column in cuts]
        stage = np.array([column if column < stages else -1 for _, column in cuts])
        return np.stack(rows, axis=1), np.where(stage < 0, 1.0, 0.0), stage


def _no_rows(options: int) -> tuple[Floats, Floats, Ints]:
    return np.empty((options, 0)), np.empty(0), np.empty(0, dtype=np.int64)
