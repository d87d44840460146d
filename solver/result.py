"""How a solve ended, as a type: what it found, what it proved, and why it went no further.

After MathOpt's Limit (OR-Tools, ortools/math_opt/python/result.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from emplace.placement.plan import StoppedBy
from emplace.placement.terms import OPTIMAL_GAP
from emplace.solver.budget import TIE

Solution = TypeVar("Solution")


class Limit(StrEnum):
    """Why a solve went no further, rising by how far from settled it was left."""

    NONE = "none"
    """It was finished: every solution was searched or ruled out."""
    GAP = "gap"
    """Nothing that is left can be better by more than the gap that was asked for."""
    FLOOR = "floor"
    """What is left of the gap is of what a search of the devices' times doesn't know: launches, input, the network."""
    TARGET = "target"
    """A solution is as fast as was asked for, or none can be."""
    WORK = "work"
    """The counted work is spent; of a part, its share of work or of time."""
    TIME = "time"
    """The time is over."""
    INTERRUPTED = "interrupted"
    """Someone asked to stop."""


_RISING = tuple(Limit)

_WORD = {
    Limit.NONE: StoppedBy.EXACT,
    Limit.GAP: StoppedBy.GAP,
    Limit.FLOOR: StoppedBy.FLOOR,
    Limit.TARGET: StoppedBy.TARGET,
    Limit.WORK: StoppedBy.WORK,
    Limit.TIME: StoppedBy.TIME,
    Limit.INTERRUPTED: StoppedBy.CANCELLED,
}
"""What plan documents call it (SolverRecord.stopped_by); a proof that there is no plan has a word of its own."""


@dataclass(frozen=True)
class Result(Generic[Solution]):
    """The best solution found, if any, and a bound that holds for all of them."""

    solution: Solution | None
    objective_us: float
    """The objective of the solution in microseconds; infinity without one."""
    lower_bound_us: float
    """No solution has a lower objective; infinity where there is none at all."""
    bound: str
    """The name of the bound that proves `lower_bound_us` (docs/explanation/bounds.md)."""
    limit: Limit
    moves: int = 0
    """Moves of the local search."""
    counted_s: float = 0.0
    """What the work counts for, in seconds of a reference core (solver/budget.py); not what it took."""

    @classmethod
    def infeasible(cls, bound: str, *, counted_s: float = 0.0) -> Result[Solution]:
        """A proof that there is no solution."""
        return cls(None, math.inf, math.inf, bound, Limit.NONE, counted_s=counted_s)

    @property
    def is_infeasible(self) -> bool:
        """Whether it is proven that there is no solution."""
        return self.solution is None and math.isinf(self.lower_bound_us)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to search for."""
        return self.limit in (Limit.NONE, Limit.GAP)

    @property
    def stopped_by(self) -> StoppedBy:
        """The word for it in plan documents."""
        return StoppedBy.PROOF if self.is_infeasible else _WORD[self.limit]

    @property
    def gap(self) -> float:
        """How much lower the best objective might be, as a share of this one; 1 without a solution."""
        return 1.0 if self.solution is None else gap_of(self.objective_us, self.lower_bound_us)

    def merged_with(self, other: Result[Solution]) -> Result[Solution]:
        """This result with the other's solution where that is better and its bound where that is higher: both are of the same problem."""
        better, higher = min(self, other, key=lambda each: each.objective_us), max(self, other, key=lambda each: each.lower_bound_us)
        return replace(
            self,
            solution=better.solution,
            objective_us=better.objective_us,
            lower_bound_us=min(higher.lower_bound_us, better.objective_us),
            bound=higher.bound,
        )

    def united_with(self, other: Result[Solution]) -> Result[Solution]:
        """The result of two problems that together hold every solution; of equally good solutions this one's."""
        better = self if self.objective_us <= other.objective_us * (1.0 + TIE) else other
        looser = self if self.lower_bound_us < other.lower_bound_us else other
        return Result(
            better.solution,
            better.objective_us,
            looser.lower_bound_us,
            looser.bound,
            max(self.limit, other.limit, key=_RISING.index),
            self.moves + other.moves,
            self.counted_s + other.counted_s,
        )


def gap_of(objective_us: float, bound_us: float) -> float:
    """How much less the best placement might take, as a share of this one."""
    return max(0.0, 1.0 - bound_us / objective_us) if objective_us > 0 else 0.0


def settled(objective_us: float, bound_us: float) -> Limit:
    """NONE where the bound has met the objective, GAP where a search ended because what lies between is no more than was asked for."""
    return Limit.NONE if gap_of(objective_us, bound_us) <= OPTIMAL_GAP else Limit.GAP
