"""The class relaxation as a linear program: its rows, the options of each table, and what a solution of it says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.solver.model.problem import Bools, Floats, Ints


@dataclass(frozen=True)
class Rows:
    """R rows over O options:  sum of coefficient[o, r] over the chosen options  <=  capacity[r] + slope[r] * s[stage[r]]

    where s[k] >= 0 is how far the makespan of stage k exceeds its base. `stage` is -1 (and slope 0) for memory rows.
    """

    coefficient: Floats
    """[O, R], scaled so that a row's right-hand side is of the order of 1."""
    capacity: Floats
    """[R]"""
    slope: Floats
    """[R]"""
    stage: Ints
    """[R]"""

    @property
    def memory(self) -> Bools:
        """[R] whether a row limits bytes."""
        return self.stage < 0

    def extended(self, coefficient: Floats, capacity: Floats, stage: Ints) -> Rows:
        """With rows added:  coefficient . x <= capacity + s[stage],  without s where `stage` is -1."""
        return Rows(
            np.hstack([self.coefficient, coefficient]),
            np.concatenate([self.capacity, capacity]),
            np.concatenate([self.slope, np.where(stage >= 0, 1.0, 0.0)]),
            np.concatenate([self.stage, stage]),
        )


@dataclass(frozen=True)
class Program:
    """What to relax: rows, the options of each table, which of them may be used, limits of each s and of their sum."""

    rows: Rows
    first: Ints
    """[T + 1] options of table t are first[t] .. first[t + 1] - 1."""
    usable: Bools
    """[O]"""
    lower: Floats
    """[K] the least of each s."""
    price: Floats
    """[K] of each s in the objective."""
    budget: float = np.inf
    """The most of all s together."""

    @property
    def tables(self) -> int:
        return len(self.first) - 1

    @property
    def lacks_options(self) -> bool:
        """Whether a table has no usable option left."""
        return bool((np.add.reduceat(self.usable, self.first[:-1], dtype=np.int64) == 0).any())


@dataclass(frozen=True)
class Relaxation:
    """`bound` holds for every placement that keeps to the program; infinity when there is none."""

    bound: float
    """Bound on the priced sum of s."""
    makespan: Floats
    """[K] s of the linear program."""
    x: Floats
    """[O]"""
    reduced_cost: Floats
    """[O] at least what choosing this option adds to `bound`; infinity for unusable options."""
    dual: Floats
    """[R + 1] of the rows and of the budget."""

    @property
    def feasible(self) -> bool:
        return bool(np.isfinite(self.bound))
