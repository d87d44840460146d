"""Small problems: the bound raised to the plan, by branch and price over patterns and by CP-SAT."""

from __future__ import annotations

import math
from dataclasses import replace

from emplace.solver.branch_and_price.tree import Tree
from emplace.solver.budget import LEAF_SECONDS, LEAF_STEPS_PER_SECOND, PROVER_MET, TREE_STEPS_PER_SECOND, Budget
from emplace.solver.cp_sat import by_cp_sat, least_counted_s
from emplace.solver.model.problem import Assignment, Problem
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import Limit, Result, settled


class Prover:
    """Raises the bound until it meets the plan; may meet better plans on the way."""

    def __init__(self, problem: Problem, bounder: Bounder, bound: Bound, budget: Budget, monitor: Monitor) -> None:
        self.problem, self.bounder, self.bound, self.budget, self.monitor = problem, bounder.by(monitor.clock), bound, budget, monitor
        self.gap = max(budget.gap, PROVER_MET)
        self.due_steps = 0
        self.tree: Tree | None = None

    def by_cp_sat(self, known: Result[Assignment], seconds: float) -> Result[Assignment]:
        """The integer program as it is, from the plan that is known; without a limit if it finishes. Left alone where building it counts
        for more than all there is."""
        if least_counted_s(self.problem) > self.budget.seconds:
            return known
        return by_cp_sat(self.problem, self.budget.of(seconds), self.monitor, known.solution).merged_with(known)

    def by_patterns(self, known: Result[Assignment], seconds: float) -> Result[Assignment]:
        """Branch and bound, from where it was; without a limit once plan and bound meet."""
        tree = self.tree = self.tree or self._new_tree()
        tree.bound_us = max(tree.bound_us, known.lower_bound_us)
        told, limit = -math.inf, Limit.WORK
        self.due_steps += round(seconds * TREE_STEPS_PER_SECOND)
        for _ in tree.raise_bound(known.objective_us, self.gap, self.due_steps):
            if told < tree.bound_us:
                told = tree.bound_us
                self.monitor.tell(tree.best_us, tree.bound_us, "exact")
            if self.monitor.stopped():
                limit = self.monitor.limit
                break
        if tree.bound_us >= tree.best_us * (1 - self.gap * (1 + 1e-9)):
            limit = settled(tree.best_us, tree.bound_us)
        return replace(
            known,
            solution=tree.best if tree.best is not None and tree.best_us < known.objective_us else known.solution,
            objective_us=tree.best_us,
            lower_bound_us=min(tree.bound_us, tree.best_us),
            bound="patterns" if tree.bound_us > known.lower_bound_us else known.bound,
            limit=limit,
        )

    def _new_tree(self) -> Tree:
        return Tree(self.problem, self.bounder, self.bound, self._solve_leaf, LEAF_STEPS_PER_SECOND, self.monitor.stopped)

    def _solve_leaf(self, part: Problem, below_us: float, effort: int) -> Result[Assignment]:
        budget = Budget(LEAF_SECONDS * effort, 0.0, self.budget.seed)
        return by_cp_sat(part, budget, self.monitor.silent(), below_us=below_us)
