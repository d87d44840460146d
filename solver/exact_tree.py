"""Branch and bound over options and makespans, each node refuted by patterns: raises the bound level by level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from solver.bound import Bound, Bounder
from solver.exact_cover import cover, coverable
from solver.exact_patterns import Window, possible
from solver.exact_refute import Patterns, Prices, Verdict
from solver.outcome import Outcome, StoppedBy
from solver.problem import Assignment, Bools, Floats, Problem, fits, loads_of, objective_us, with_options

LEVELS = 8
"""In how many equal steps the bound is first raised from where the root left it to the incumbent."""
MORE_EFFORT = 4
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
    """How many times the usual work settling it may take."""


Settle = Callable[[Problem, float, int], Outcome]
"""Solves a problem whose options are all chosen, given what an assignment must beat and the effort."""
STEPS_PER_SECOND = 4e7
"""About what one core does."""


class Tree:
    """Every placement better than the incumbent lies in one of `open`."""

    def __init__(self, problem: Problem, bounder: Bounder, bound: Bound, settle: Settle, settle_steps: int) -> None:
        self.problem, self.bounder, self.class_bound, self.settle = problem, bounder, bound, settle
        self.settle_steps = settle_steps
        self.patterns = Patterns(problem)
        stages = problem.num_stages
        self.open = [Node(np.ones(problem.num_options, dtype=bool), np.zeros(stages), np.full(stages, np.inf), None)]
        self.bound_us = bound.value_us
        self.best: Assignment | None = None
        self.best_us = np.inf
        self.steps = 0
        self.gap = 0.0
        self.covers = coverable(problem, self.patterns.classes)

    def raise_bound(self, best_us: float, gap: float, most_steps: int) -> Iterator[None]:
        """Raises `bound_us` until it meets the best objective, stopping between nodes; runs `most_steps` at most."""
        self.best_us, self.gap = best_us, gap
        step = None
        while self.steps < most_steps:
            target = self.best_us * (1 - gap)
            if not self.open or self.bound_us >= target:
                self.bound_us = max(self.bound_us, target) if not self.open else self.bound_us
                return
            if step is None:
                step = (target - self.bound_us) / LEVELS
            level = min(self.bound_us + step, target)
            if target - level < step / 4:
                level = target
            yield from self._refute(level, most_steps)

    def _refute(self, level: float, most_steps: int) -> Iterator[None]:
        """Closes or splits nodes until none may hold a placement up to `level`."""
        candidates, _ = self.bounder.candidates(self.class_bound, level)
        waiting = self.open[::-1]
        refuted: list[Node] = []
        while waiting:
            if self.steps >= most_steps:
                self.open = refuted + waiting[::-1]
                return
            node = waiting.pop()
            level = min(level, self.best_us * (1 - self.gap))
            window = self._window(node.lower, node.upper, level)
            keep = node.keep & candidates
            verdict = self.patterns.refute(keep, window, node.prices, most_steps - self.steps)
            self.steps += verdict.steps + NODE_STEPS
            if verdict.refuted:
                refuted.append(replace(node, prices=verdict.prices))
                yield
                continue
            if self.steps >= most_steps:
                waiting.append(replace(node, prices=verdict.prices))
                continue
            left = possible(self.problem, self.patterns.classes, keep, window)
            if np.bincount(self.problem.option_table[left]).max() > 1:
                waiting += self._split(node, left, window, verdict)
            elif self._cover(left, window, node.effort) or self._settle(left, node.effort):
                refuted.append(replace(node, prices=verdict.prices))
            else:
                waiting.insert(0, replace(node, prices=verdict.prices, effort=node.effort * MORE_EFFORT))
            yield
        self.open = refuted
        self.bound_us = max(self.bound_us, min(level, self.best_us * (1 - self.gap)))

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

    def _settle(self, left: Bools, effort: int) -> bool:
        """Solves what the options left allow; whether that was finished, so that it holds nothing better than the best."""
        found = self.settle(with_options(self.problem, left), self.best_us, effort)
        self.steps += self.settle_steps * effort
        if found.assignment is not None and found.objective_us < self.best_us:
            options = np.flatnonzero(left)
            self.best = replace(found.assignment, option=options[found.assignment.option])
            self.best_us = found.objective_us
        return found.stopped_by in (StoppedBy.EXACT, StoppedBy.PROOF)
