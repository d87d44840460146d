"""Betters a plan: by dives where they apply, then by placing parts of it anew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from emplace.solver.budget import (
    BEFORE_DIVES_SECONDS,
    DIVE_SHARE,
    DIVE_SHARE_STAGES,
    DIVE_STEPS_PER_SECOND,
    NEIGHBOURHOOD_SECONDS,
    Budget,
)
from emplace.solver.heuristics.dive_program import StepMeter
from emplace.solver.heuristics.diving import Dives, divable
from emplace.solver.heuristics.large_neighbourhood import LargeNeighbourhood
from emplace.solver.model.problem import Assignment, Problem, loads_of, objective_us
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import Result


class Improver:
    """Goes on where it was from whatever plan it is given."""

    def __init__(
        self, problem: Problem, bounder: Bounder, bound: Bound, found: Result[Assignment], budget: Budget, monitor: Monitor
    ) -> None:
        self.due_s = 0.0
        """The seconds that it may have counted by now: what took longer is taken off the next run."""
        self.problem, self.budget, self.monitor = problem, budget, monitor
        self.best, self.tries = found, self._tries()
        self.meter = StepMeter(round(budget.seconds * DIVE_STEPS_PER_SECOND), monitor.stopped, is_limit=not budget.by_clock)
        can_dive = found.solution is not None and divable(problem, found.solution)
        self.dives = Dives(problem, bounder, bound, budget.seed, self.meter) if can_dive else None
        building_s = NEIGHBOURHOOD_SECONDS if budget.by_clock else budget.seconds
        self.neighbourhood = LargeNeighbourhood(problem, bounder, bound, budget.seed, monitor, building_s)

    @property
    def dived_s(self) -> float:
        """What the dives so far count for."""
        return self.meter.steps / DIVE_STEPS_PER_SECOND

    @property
    def counted_s(self) -> float:
        """What its work so far counts for."""
        return self.dived_s + self.neighbourhood.counted_s

    def run(self, known: Result[Assignment], seconds: float) -> Result[Assignment]:
        """Works on from the plan and the bound that are known for `seconds`, or until they meet."""
        self.best, gap = known, self.budget.enough
        self.due_s += seconds
        while self.best.solution is not None and self.best.gap > gap and self.counted_s < self.due_s and not self.monitor.stopped():
            plan = next(self.tries)
            value = math.inf if plan is None else objective_us(self.problem, loads_of(self.problem, plan))
            if value < self.best.objective_us:
                self.best = replace(self.best, solution=plan, objective_us=value)
                self.monitor.tell(value, self.best.lower_bound_us, "search")
        return replace(self.best, lower_bound_us=min(self.best.lower_bound_us, self.best.objective_us))

    def _tries(self) -> Iterator[Assignment | None]:
        """Better plans than the best when they were begun, and nothing between them."""
        before_s, share = (BEFORE_DIVES_SECONDS, DIVE_SHARE_STAGES) if self.problem.num_stages > 1 else (0.0, DIVE_SHARE)
        while self.best.solution is not None:
            if self.dives is not None and self.dived_s <= share * (self.counted_s - before_s):
                yield from self.dives.improve(self.best.solution, self.best.lower_bound_us)
                yield None
            else:
                yield self.neighbourhood.improve(self.best.solution, self.due_s - self.counted_s)
