"""Why no plan exists, and what would help."""

from __future__ import annotations

from placement.plan import Explanation, Question
from solver.outcome import ShouldStop


def explain(question: Question, should_stop: ShouldStop | None = None) -> Explanation:
    """The reasons, and the fixes that were found by solving with them."""
    return Explanation(reasons=("no plan exists",))
