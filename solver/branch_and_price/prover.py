"""Small problems: the bound raised to the plan, by branch and bound over patterns and by CP-SAT."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from emplace.solver.branch_and_price.tree import STEPS_PER_SECOND, Tree
from emplace.solver.cp_sat import by_cp_sat, stopped
from emplace.solver.model.problem import Problem
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import Limits, Outcome, Progress, ReportProgress, ShouldStop, gap_of

_LEAF_SECONDS = 1.0
"""For CP-SAT on a problem whose options are all chosen."""
_LEAF_STEPS = 5e7
"""What a counted second of it counts for."""
_MET = 1e-7
"""A gap that counts as none."""


class Prover:
    """Raises the bound until it meets the plan; may meet better plans on the way."""

    def __init__(
        self,
        problem: Problem,
        bounder: Bounder,
        bound: Bound,
        limits: Limits,
        report: ReportProgress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> None:
        self.problem, self.bounder, self.bound, self.limits = problem, bounder, bound, limits
        self.report, self.should_stop = report, should_stop
        self.gap = max(limits.gap, _MET)
        self.due_steps = 0
        self.tree: Tree | None = None

    def by_cp_sat(self, known: Outcome, seconds: float) -> Outcome:
        """The integer program as it is, from the plan that is known; EXACT if it finishes."""
        return by_cp_sat(self.problem, replace(self.limits, seconds=seconds), self.report, self.should_stop, known.assignment).beside(known)

    def _settle(self, part: Problem, below_us: float, effort: int) -> Outcome:
        return by_cp_sat(part, Limits(_LEAF_SECONDS * effort, 0.0, self.limits.seed), None, self.should_stop, below_us=below_us)

    def by_patterns(self, known: Outcome, seconds: float) -> Outcome:
        """Branch and bound, from where it was; EXACT once plan and bound meet."""
        tree = self.tree = self.tree or Tree(self.problem, self.bounder, self.bound, self._settle, _LEAF_STEPS)
        tree.bound_us = max(tree.bound_us, known.lower_bound_us)
        started, told, cancelled = time.perf_counter(), -math.inf, False
        self.due_steps += round(seconds * STEPS_PER_SECOND)
        for _ in tree.raise_bound(known.objective_us, self.gap, self.due_steps):
            if self.report is not None and told < tree.bound_us:
                told = tree.bound_us
                gap = gap_of(tree.best_us, tree.bound_us)
                self.report(Progress(time.perf_counter() - started, tree.best_us, tree.bound_us, gap, "exact"))
            if self.should_stop is not None and self.should_stop():
                cancelled = True
                break
        assignment = tree.best if tree.best is not None and tree.best_us < known.objective_us else known.assignment
        proven = tree.bound_us >= tree.best_us * (1 - self.gap * (1 + 1e-9))
        name = "patterns" if tree.bound_us > known.lower_bound_us else known.bound
        return replace(
            known,
            assignment=assignment,
            objective_us=tree.best_us,
            lower_bound_us=min(tree.bound_us, tree.best_us),
            bound=name,
            stopped_by=stopped(proven, cancelled),
        )
