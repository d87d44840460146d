"""Betters a plan: by dives where they apply, then by placing parts of it anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from emplace.solver.heuristics.diving import Dives, divable
from emplace.solver.heuristics.large_neighbourhood import Nearby
from emplace.solver.model.problem import Assignment, Problem, loads_of, objective_us
from emplace.solver.patterns.dive_cover import STEPS_PER_SECOND, Effort
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import MET, Limits, Outcome, ShouldStop

DIVE_SHARE = 0.75
"""Of what is counted, where dives apply."""
Report = Callable[[float, float, str], None]
"""Of the objective and the bound, and of which part of the solve they are."""


class Improver:
    """Goes on where it was from whatever plan it is given."""

    def __init__(
        self, problem: Problem, bounder: Bounder, bound: Bound, found: Outcome, limits: Limits, report: Report, should_stop: ShouldStop
    ) -> None:
        self.due_s = 0.0
        """What it may have counted by now: what took longer is taken off the next run."""
        self.problem, self.limits, self.report, self.should_stop = problem, limits, report, should_stop
        self.best, self.tries = found, self._tries()
        self.can_dive = found.assignment is not None and divable(problem, found.assignment)
        self.effort = Effort(round(limits.seconds * STEPS_PER_SECOND), should_stop)
        self.dives = Dives(problem, bounder, bound, limits.seed, self.effort)
        self.nearby = Nearby(problem, bounder, bound, limits.seed, should_stop)

    @property
    def dived_s(self) -> float:
        """What the dives so far count for."""
        return self.effort.steps / STEPS_PER_SECOND

    @property
    def counted_s(self) -> float:
        """What its work so far counts for."""
        return self.dived_s + self.nearby.counted_s

    def run(self, known: Outcome, seconds: float) -> Outcome:
        """Works on from the plan and the bound that are known for `seconds`, or until they meet."""
        self.best, gap = known, max(self.limits.gap, MET)
        self.due_s += seconds
        while self.best.assignment is not None and self.best.gap > gap and self.counted_s < self.due_s and not self.should_stop():
            plan = next(self.tries)
            value = math.inf if plan is None else objective_us(self.problem, loads_of(self.problem, plan))
            if value < self.best.objective_us:
                self.best = replace(self.best, assignment=plan, objective_us=value)
                self.report(value, self.best.lower_bound_us, "search")
        return replace(self.best, lower_bound_us=min(self.best.lower_bound_us, self.best.objective_us))

    def _tries(self) -> Iterator[Assignment | None]:
        """Better plans than the best when they were begun, and nothing between them."""
        while self.best.assignment is not None:
            if self.can_dive and self.dived_s <= DIVE_SHARE * self.counted_s:
                yield from self.dives.improve(self.best.assignment, self.best.lower_bound_us)
                yield None
            else:
                yield self.nearby.improve(self.best.assignment, self.due_s - self.counted_s)
