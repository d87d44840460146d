"""Branch and bound over options and makespans, each node refuted by patterns: raises the bound level by level."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from emplace.solver.branch_and_price.leaf import cover, coverable
from emplace.solver.branch_and_price.node_bound import Patterns, Prices, Verdict
from emplace.solver.model.problem import Assignment, Bools, Floats, Problem, fits, loads_of, objective_us, with_options
from emplace.solver.patterns.device_classes import Window, possible
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.result import Limit, Result

LEVELS = 8
"""In how many equal steps the bound is first raised from where the root left it to the incumbent."""
LEAST_PATIENCE = 20_000_000
"""Steps; a level that takes longer, and longer than all before, is left for one half as far."""
LEAST_STEP = 1e-4
"""Of the level: it is not left for one closer to the bound."""
MOST_EFFORT = 4
"""For a node that the usual work did not settle: with more, the other side waits long for little."""
COVER_STEPS = 100_000
"""What building a cover counts for."""
SPLIT_STAGE = 0.02
"""Of the value: how far a pattern may be longer in a stage than s before that stage is split."""
LEAST_WEIGHT = 0.05
"""Of a table whose price is 0, when choosing which one to split; prices are at most 1."""
ROUNDING = 1e-6
NODE_STEPS = 100_000
"""What a node counts for besides its pricing and programs."""


@dataclass(frozen=True)
class Node:
    """Placements that take only options in `keep` and whose s lie between `lower` and `upper`."""

    keep: Bools
    lower: Floats
    upper: Floats
    prices: Prices | None
    effort: int = 1
    """How many times the usual work settling it may take: once, then MOST_EFFORT."""


Settle = Callable[[Problem, float, int], Result[Assignment]]
"""Solves a problem whose options are all chosen, given what an assignment must beat and the effort."""


class Tree:
    """Every placement better than the incumbent lies in one of `open`."""

    def __init__(self, problem: Problem, bounder: Bounder, bound: Bound, settle: Settle, settle_steps: float) -> None:
        self.problem, self.bounder, self.class_bound, self.settle = problem, bounder, bound, settle
        self.settle_steps = settle_steps
        self.patterns = Patterns(problem)
        stages = problem.num_stages
        self.waiting = [Node(np.ones(problem.num_options, dtype=bool), np.zeros(stages), np.full(stages, np.inf), None)]
        self.refuted: list[Node] = []
        """At the present level."""
        self.bound_us = bound.value_us
        self.best: Assignment | None = None
        self.best_us = np.inf
        self.steps = self.most_steps = 0
        self.gap = 0.0
        self.covers = coverable(problem, self.patterns.classes)
        self.levels: Iterator[None] | None = None

    @property
    def open(self) -> list[Node]:
        """What may hold something better than the best."""
        return self.refuted + self.waiting[::-1]

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
            reached = yield from self._refute(self._target_us if self._target_us - level < step_us / 4 else level)
            step_us = min(step_us, reached - self.bound_us)
            self.bound_us = max(self.bound_us, min(reached, self._target_us))
        if not self.open:
            self.bound_us = max(self.bound_us, self._target_us)

    def _refute(self, level: float) -> Generator[None, None, float]:
        """Closes or splits nodes until none may hold a placement up to `level`, or up to a lower one where that takes long; which."""
        self.waiting, self.refuted = self.open[::-1], []
        candidates, _ = self.bounder.candidates(self.class_bound, level)
        patience = max(LEAST_PATIENCE, 2 * self.steps)
        while self.waiting:
            if self.steps > patience and level - self.bound_us > LEAST_STEP * level:
                level, patience = (self.bound_us + level) / 2, 2 * self.steps
                candidates, _ = self.bounder.candidates(self.class_bound, level)
            level = min(level, self._target_us)
            self._close_or_split(self.waiting.pop(), level, candidates)
            yield
        return level

    def _close_or_split(self, node: Node, level: float, candidates: Bools) -> None:
        window = self._window(node.lower, node.upper, level)
        keep = node.keep & candidates
        verdict = self.patterns.refute(keep, window, node.prices, self.most_steps - self.steps)
        self.steps += verdict.steps + NODE_STEPS
        node = replace(node, prices=verdict.prices)
        if verdict.refuted:
            self.refuted.append(node)
            return
        if self.steps >= self.most_steps:
            self.waiting.append(node)
            return
        left = possible(self.problem, self.patterns.classes, keep, window)
        if np.bincount(self.problem.option_table[left]).max() > 1:
            self.waiting += self._split(node, left, window, verdict)
        elif self._cover(left, window, node.effort) or self._settle(left, level, node.effort):
            self.refuted.append(node)
        else:
            self.waiting.insert(0, replace(node, effort=MOST_EFFORT))

    def _cover(self, left: Bools, window: Window, effort: int) -> bool:
        """Whether the options left, one a table, hold nothing better than the best by their patterns; finds better plans."""
        while self.covers:
            tried = cover(self.problem, self.patterns.classes[0], left, window, effort)
            self.steps += COVER_STEPS + (tried.steps if tried is not None else 0)
            if tried is None or tried.assignment is None:
                return tried is not None and tried.refuted
            loads = loads_of(self.problem, tried.assignment)
            value = objective_us(self.problem, loads)
            if not fits(self.problem, loads) or value >= self.best_us:
                return False
            self.best, self.best_us = tried.assignment, value
            window = self._window(window.lower, window.upper, value * (1 - self.gap))
        return False

    def _split(self, node: Node, left: Bools, window: Window, verdict: Verdict) -> list[Node]:
        """Two parts of the node that together hold every placement of it."""
        excess = verdict.longest - verdict.makespan
        if excess.max() > SPLIT_STAGE * window.value:
            return self._split_stage(node, int(np.argmax(excess)), verdict)
        table = self.problem.option_table
        has_choice = left & (np.bincount(table[left], minlength=self.problem.num_tables)[table] > 1)
        weight = np.where(has_choice, np.minimum(verdict.share, 1 - verdict.share) * (LEAST_WEIGHT + verdict.prices.table[table]), -1.0)
        if weight.max() <= ROUNDING:
            weight = np.where(has_choice, verdict.share, -1.0)
        option = int(np.argmax(weight))
        one, others = node.keep & (table != table[option]), node.keep.copy()
        one[option], others[option] = True, False
        return [replace(node, keep=others, prices=verdict.prices), replace(node, keep=one, prices=verdict.prices)]

    def _split_stage(self, node: Node, stage: int, verdict: Verdict) -> list[Node]:
        """A pattern takes longer in the stage than s says: s is below the middle of both, or above."""
        middle = (verdict.longest[stage] + verdict.makespan[stage]) / 2
        upper, lower = node.upper.copy(), node.lower.copy()
        upper[stage], lower[stage] = middle, middle
        return [replace(node, upper=upper, prices=verdict.prices), replace(node, lower=lower, prices=verdict.prices)]

    def _window(self, lower: Floats, upper: Floats, level: float) -> Window:
        value = level - self.class_bound.fixed_us
        return Window(lower, np.minimum(upper, value - (lower.sum() - lower)), value)

    def _settle(self, left: Bools, level: float, effort: int) -> bool:
        """Solves what the options left allow up to `level`; whether that was finished, so that the node holds nothing better than
        the best there."""
        found = self.settle(with_options(self.problem, left), level, effort)
        self.steps += round(found.counted_s * self.settle_steps)
        if found.solution is not None and found.objective_us < self.best_us:
            options = np.flatnonzero(left)
            self.best = replace(found.solution, option=options[found.solution.option])
            self.best_us = found.objective_us
        return found.limit is Limit.NONE
