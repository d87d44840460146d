"""Why a solve stopped, and with what, as a type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from emplace.solver.model.problem import Assignment

MET = 1e-9
"""A gap that only rounding leaves."""


class StoppedBy(StrEnum):
    EXACT = "exact"
    """Optimal within the asked gap by exact search."""
    GAP = "gap"
    """The bound and the plan met within the asked gap."""
    LIMIT = "limit"
    """The work budget ran out."""
    PROOF = "proof"
    """No placement exists."""
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Outcome:
    """`assignment` is None when none was found; `lower_bound_us` holds for every placement (infinity after PROOF)."""

    assignment: Assignment | None
    objective_us: float
    lower_bound_us: float
    bound: str
    stopped_by: StoppedBy
    moves: int = 0
    counted_s: float = 0.0
    """Of CP-SAT alone: what its work counts for, not what it took."""

    @property
    def gap(self) -> float:
        """As a share of the objective; 1 where there is no placement."""
        return 1.0 if self.assignment is None else gap_of(self.objective_us, self.lower_bound_us)

    def beside(self, other: Outcome) -> Outcome:
        """With the other's plan where that is better, and its bound where that is higher."""
        better, higher = min(self, other, key=lambda each: each.objective_us), max(self, other, key=lambda each: each.lower_bound_us)
        return replace(
            self,
            assignment=better.assignment,
            objective_us=better.objective_us,
            lower_bound_us=min(higher.lower_bound_us, better.objective_us),
            bound=higher.bound,
        )


def gap_of(objective_us: float, bound_us: float) -> float:
    """How much less the best placement might take, as a share of this one."""
    return max(0.0, 1.0 - bound_us / objective_us) if objective_us > 0 else 0.0


@dataclass(frozen=True)
class Progress:
    """Where a solve stands; None while there is no incumbent."""

    elapsed_s: float
    incumbent_us: float | None
    bound_us: float
    gap: float | None
    phase: str


ReportProgress = Callable[[Progress], None]
ShouldStop = Callable[[], bool]


@dataclass(frozen=True)
class Limits:
    """When to stop. Work is counted, not timed: `seconds` is converted to moves and deterministic time at a fixed rate,
    so the same problem, seed and limit give the same answer on any machine under any load."""

    seconds: float
    gap: float
    seed: int
