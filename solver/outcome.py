"""Why a solve stopped, and with what, as a type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from solver.problem import Assignment


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
