"""A program as options are ruled out: smaller and smaller, and still the whole of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.solver.model.problem import Bools, Floats, Ints
from emplace.solver.relaxation.program import Program


@dataclass(frozen=True)
class ReducedProgram:
    """The options that are left. Tables with a single one are settled: their load is taken off the capacities."""

    whole: Program
    program: Program
    """Over the open tables, or one settled table where none is open."""
    options: Ints
    """The options of `program`, by their numbers in `whole`."""
    settled: Ints
    """Options of the settled tables."""

    @classmethod
    def of(cls, program: Program) -> ReducedProgram:
        """A program with nothing ruled out."""
        return cls(program, program, np.arange(len(program.usable)), np.empty(0, dtype=np.int64))

    def only(self, keep: Bools) -> ReducedProgram:
        """With the options of `program` in `keep` left; where that leaves a table none, its program is infeasible."""
        program, first = self.program, self.program.first
        keep = keep & program.usable
        left = np.add.reduceat(keep, first[:-1], dtype=np.int64)
        if left.min() == 0:
            return replace(self, program=replace(program, usable=keep))
        settled = left == 1
        if settled.all():
            settled[0] = False
        is_settled = np.repeat(settled, np.diff(first)) & keep
        stays = np.repeat(~settled, np.diff(first)) & keep
        rows = program.rows
        capacity = rows.capacity - rows.coefficient[is_settled].sum(axis=0)
        smaller = Program(
            rows=rows.of(stays, capacity),
            first=np.concatenate([[0], np.cumsum(left[~settled])]),
            usable=np.ones(int(stays.sum()), dtype=bool),
            lower=program.lower,
            price=program.price,
            budget=program.budget,
        )
        return ReducedProgram(self.whole, smaller, self.options[stays], np.concatenate([self.settled, self.options[is_settled]]))

    @property
    def left(self) -> Ints:
        """The options of `whole` that are left, those of settled tables included."""
        return np.concatenate([self.options[self.program.usable], self.settled])

    def lasting(self, lower: Floats) -> ReducedProgram:
        """With makespans of at least `lower` ([K])."""
        return replace(self, program=replace(self.program, lower=lower))

    def spread(self, values: Floats, elsewhere: float, settled: float) -> Floats:
        """[O of whole] from values of the program's options: `elsewhere` for options that were ruled out."""
        spread = np.full(len(self.whole.usable), elsewhere)
        spread[self.options] = values
        spread[self.settled] = settled
        return spread
