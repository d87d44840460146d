"""Branch and bound over options and makespans, each node certified infeasible by patterns: raises the bound level by level."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import numpy as np

from emplace.solver.branch_and_price.leaf import has_pattern_leaves, solve_by_patterns
from emplace.solver.budget import NODE_STEPS, PATTERN_LEAF_STEPS
from emplace.solver.model.problem import Assignment, Bools, Problem, fits, loads_of, objective_us, with_options
from emplace.solver.patterns.branching import Branching, BranchNode, split_stage
from emplace.solver.patterns.device_classes import MakespanBox, placeable
from emplace.solver.patterns.node_bound import NodeBound, PatternBound
from emplace.solver.progress import ShouldStop
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.relaxation.region import Region
from emplace.solver.result import Result

LEVELS = 8
"""In how many equal steps the bound is first raised from where the root left it to the incumbent."""
LEAST_PATIENCE = 20_000_000
"""Steps; a level that takes longer, and longer than all before, is left for one half as far."""
LEAST_STEP = 1e-4
"""Share of a level: it is not left for one that is closer to the bound than this."""
MOST_EFFORT = 4
"""For a node that the usual work did not settle: with more, the other side waits long for little."""
UNEVEN, NARROW = 0.004, 0.0005
"""Shares of the value: by how much a pattern may be longer in a stage than s before a node is split at that stage; and by how much the
lengths of a stage may differ before one is split at the stage where they differ most, if patterns don't cover all tables: it should hold
nothing, and a narrower one is easier to refute."""
FEW_WAYS = 16
"""Where so many ways or fewer are left to choose an option for each table, a node is split at options: parts of one choice have no end."""
LEAST_WEIGHT = 0.05
"""Weight of a table whose price is 0 in choosing which one to split; prices are at most 1."""
LEAST_SHARE = 1e-6
"""Weight up to which an option is no better to split on than any other."""


SolveLeaf = Callable[[Problem, float, int], Result[Assignment]]
"""Solves a problem whose options are all chosen, given what an assignment must beat and the effort."""


class Tree:
    """Every placement better than the incumbent, and up to the present level, lies in one of `open`."""

    def __init__(
        self,
        problem: Problem,
        bounder: Bounder,
        bound: Bound,
        solve_leaf: SolveLeaf,
        leaf_steps_per_second: float,
        should_stop: ShouldStop = lambda: False,
    ) -> None:
        self.problem, self.solve_leaf = problem, solve_leaf
        self.leaf_steps_per_second = leaf_steps_per_second
        self.should_stop = should_stop
        self.patterns = PatternBound(problem, should_stop)
        self.branching = Branching(problem, bounder, bound)
        self.waiting = [self.branching.everything]
        self.closed: list[BranchNode] = []
        """Nodes that hold nothing at the present level."""
        self.bound_us = bound.value_us
        self.best: Assignment | None = None
        self.best_us = np.inf
        self.steps = self.most_steps = 0
        self.gap = 0.0
        self.has_pattern_leaves = has_pattern_leaves(problem, self.patterns.classes)
        self.levels: Iterator[None] | None = None

    @property
    def open(self) -> list[BranchNode]:
        """What may hold something better than the best."""
        return self.closed + self.waiting[::-1]

    def raise_bound(self, best_us: float, gap: float, most_steps: int) -> Iterator[None]:
        """Raises `bound_us` until it meets the best objective, stopping between nodes, until `steps` are `most_steps`. Called
        again, with an objective as good or better, it goes on where it was."""
        self.best_us, self.gap, self.most_steps = best_us, gap, most_steps
        if self.levels is None:
            self.levels = self._levels()
        while self.steps < most_steps:
            try:
                next(self.levels)
            except StopIteration:
                return
            yield

    @property
    def _target_us(self) -> float:
        return self.best_us * (1 - self.gap)

    def _levels(self) -> Iterator[None]:
        step_us = (self._target_us - self.bound_us) / LEVELS
        while self.open and self.bound_us < self._target_us:
            level = self.bound_us + step_us
            reached = yield from self._close_up_to(self._target_us if self._target_us - level < step_us / 4 else level)
            step_us = min(step_us, reached - self.bound_us)
            self.bound_us = max(self.bound_us, min(reached, self._target_us))
        if not self.open:
            self.bound_us = max(self.bound_us, self._target_us)

    def _close_up_to(self, level: float) -> Generator[None, None, float]:
        """Closes or splits nodes until none may hold a placement up to `level`, or up to a lower one where that takes long; which."""
        region = self.branching.below(level)
        self.waiting, self.closed = self._parts(level, region), []
        patience = max(LEAST_PATIENCE, 2 * self.steps)
        while self.waiting:
            if self.steps > patience and level - self.bound_us > LEAST_STEP * level:
                level, patience = (self.bound_us + level) / 2, 2 * self.steps
                region = self.branching.below(level)
            level = min(level, self._target_us)
            if region is None:
                self.closed, self.waiting = self.open, []
            else:
                self._close_or_split(self.waiting.pop(), level, region)
            yield
        if self.problem.num_stages > 1:
            self.closed = [self.branching.everything]
        return level

    def _parts(self, level: float, region: Region | None) -> list[BranchNode]:
        """What is to be closed at a level: with one stage, what was at the one before. With several, whose lengths are divided otherwise at
        every level, all placements anew."""
        if self.problem.num_stages == 1 or region is None:
            return self.open[::-1]
        return self.branching.parts(level, region)

    def _close_or_split(self, node: BranchNode, level: float, region: Region) -> None:
        inside = self.branching.within(node, region)
        box, keep = self.branching.box(inside, level), inside.keep
        found = self.patterns.bound(keep, box, node.prices, self.most_steps - self.steps)
        self.steps += found.steps + NODE_STEPS
        node = replace(node, prices=found.prices)
        if found.is_infeasible:
            self.closed.append(node)
            return
        if self.steps >= self.most_steps or self.should_stop():
            self.waiting.append(node)
            return
        left = placeable(self.problem, self.patterns.classes, keep, box)
        if np.bincount(self.problem.option_table[left]).max() > 1:
            self.waiting += self._split(node, left, box, found)
        elif self._solved_by_patterns(left, box, node.effort) or self._solved(left, level, node.effort):
            self.closed.append(node)
        else:
            self.waiting.insert(0, replace(node, effort=MOST_EFFORT))

    def _solved_by_patterns(self, left: Bools, box: MakespanBox, effort: int) -> bool:
        """Whether the options left, one a table, hold nothing better than the best by their patterns; finds better plans."""
        while self.has_pattern_leaves:
            tried = solve_by_patterns(self.problem, self.patterns.classes[0], left, box, effort, self.should_stop)
            self.steps += PATTERN_LEAF_STEPS + (tried.steps if tried is not None else 0)
            if tried is None or tried.assignment is None:
                return tried is not None and tried.is_infeasible
            loads = loads_of(self.problem, tried.assignment)
            value = objective_us(self.problem, loads)
            if not fits(self.problem, loads) or value >= self.best_us:
                return False
            self.best, self.best_us = tried.assignment, value
            box = self.branching.up_to(box, value * (1 - self.gap))
        return False

    def _split(self, node: BranchNode, left: Bools, box: MakespanBox, found: NodeBound) -> list[BranchNode]:
        """Two parts of the node that together hold every placement of it."""
        excess, width = found.longest - found.makespan, box.upper - box.lower
        table = self.problem.option_table
        choices = np.bincount(table[left], minlength=self.problem.num_tables)
        if np.prod(choices, dtype=np.float64) > FEW_WAYS:
            if excess.max() > UNEVEN * box.value:
                return split_stage(node, int(np.argmax(excess)), box, found)
            if not found.is_covered and width.max() > NARROW * box.value:
                return split_stage(node, int(np.argmax(width)), box, found)
        has_choice = left & (choices[table] > 1)
        weight = np.where(has_choice, np.minimum(found.share, 1 - found.share) * (LEAST_WEIGHT + found.prices.table[table]), -1.0)
        if weight.max() <= LEAST_SHARE:
            weight = np.where(has_choice, found.share, -1.0)
        option = int(np.argmax(weight))
        one, others = node.keep & (table != table[option]), node.keep.copy()
        one[option], others[option] = True, False
        return [replace(node, keep=others, prices=found.prices), replace(node, keep=one, prices=found.prices)]

    def _solved(self, left: Bools, level: float, effort: int) -> bool:
        """Solves what the options left allow up to `level`; whether that was finished, so that the node holds nothing better than
        the best there."""
        found = self.solve_leaf(with_options(self.problem, left), level, effort)
        self.steps += round(found.counted_s * self.leaf_steps_per_second)
        if found.solution is not None and found.objective_us < self.best_us:
            options = np.flatnonzero(left)
            self.best = replace(found.solution, option=options[found.solution.option])
            self.best_us = found.objective_us
        return found.is_settled
