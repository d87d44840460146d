"""The class relaxation as a linear program: its rows, the options of each table, and what a solution of it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.solver.model.problem import Bools, Floats, Ints


@dataclass(frozen=True)
class Rows:
    """R rows over O options:  sum of coefficient[o, r] over the chosen options  <=  capacity[r] + slope[r] * s[stage[r]]

    where s[k] >= 0 is how far the makespan of stage k exceeds its base. `stage` is -1 (and slope 0) for memory rows.
    """

    coefficient: Floats
    """[O, R], scaled so that a row's right-hand side is of the order of 1. Column by column in memory: few rows count at a time."""
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

    def weighed(self, weight: Floats) -> Floats:
        """[O] the sum over rows of coefficient times weight ([R])."""
        counts = np.flatnonzero(weight)
        return weight[counts] @ self.coefficient.T[counts]

    def of(self, options: Bools, capacity: Floats) -> Rows:
        """Over these of the options, with these capacities."""
        return replace(self, coefficient=np.take(self.coefficient.T, np.flatnonzero(options), axis=1).T, capacity=capacity)

    def extended(self, coefficient: Floats, capacity: Floats, stage: Ints) -> Rows:
        """With rows added:  coefficient . x <= capacity + s[stage],  without s where `stage` is -1."""
        return Rows(
            np.concatenate([self.coefficient.T, coefficient.T]).T,
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
class StartingPoint:
    """Where to start on a program: a solution of one much like it."""

    taken: Bools
    """[O] options that the solution takes."""
    dual: Floats
    """[R + 1] as in a relaxation; of fewer rows where the program has more since."""
    scale: float


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
    scale: float
    """The unit of time of its linear program, about the sum of s."""

    @property
    def feasible(self) -> bool:
        return bool(np.isfinite(self.bound))

    @property
    def starting_point(self) -> StartingPoint:
        """For a program with the same options."""
        return StartingPoint(self.x > 0, self.dual, self.scale)

    def starting_point_of(self, options: Ints) -> StartingPoint:
        """For a program with these of the options."""
        return StartingPoint(self.x[options] > 0, self.dual, self.scale)
