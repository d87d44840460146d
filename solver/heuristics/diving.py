"""Better plans of few tables, dive by dive: how much better each looks for, and what of the plan it keeps.

Where devices hold a few large pieces each, what fits together decides, and a search that moves a table or two at a time does
not see it. docs/explanation/search.md describes a dive.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from emplace.solver.budget import DIVE_STEPS
from emplace.solver.heuristics.dive import Dive, dive_options, held_tables
from emplace.solver.heuristics.dive_program import OutOfSteps, PatternPool, StepMeter
from emplace.solver.heuristics.stage_lengths import DiveLimits, StageLengths
from emplace.solver.model.problem import Assignment, Floats, Ints, Problem, Scope, fits, loads_of, objective_us
from emplace.solver.patterns.device_classes import device_classes
from emplace.solver.relaxation.bound import Bound, Bounder

BETTER, HARDLY_BETTER = 1e-4, 5e-4
"""How much better a plan must be to be looked for; where less than the second was looked for and not found, much more is again."""
REACH = 0.5
"""Share of what lies between bound and plan by which a better plan is looked for at first, and after one is found."""
PATIENCE, STEPS_PER_PATIENCE = 3.0, 2e8
"""Dives at one reach with one stage, each counted by the share of the devices that it did not come to, then half the reach; and one more for
so many steps of the meter."""
PATIENCE_STEPS = 3e8
"""With several stages the steps at one reach, as many dives end where they begin and others go a long way; then half the reach."""
WHOLE, STAYING = 0.2, (0.3, 0.7)
"""At a reach below the first, a dive with one stage begins with a part of the devices as they are in the plan, whose share is drawn from the
second: a small step needs no other plan everywhere."""
NOISE = 0.2
"""Spread of the logarithm of what a choice is weighted by, in all dives at a reach but the first."""
MOST_PATTERNS, KEPT_PATTERNS = 1500, 700
"""Where there are more than the first, the last ones stay: programs that begin with many take long."""
MOSTLY = 0.8
"""Share of the tables that must lie on single devices: those that load nodes stay, and where they are many, they decide."""


def divable(problem: Problem, plan: Assignment) -> bool:
    """Whether all devices are alike, and so are the units of every option, and most tables of the plan lie on single devices."""
    classes = device_classes(problem)
    is_alike = len(classes) == 1 and classes[0].is_trainer and np.array_equal(classes[0].option, np.arange(problem.num_options))
    return bool(is_alike and (problem.option_scope[plan.option] == Scope.DEVICE).mean() >= MOSTLY)


class Dives:
    """Tries to better a plan until the meter is spent."""

    def __init__(self, problem: Problem, bounder: Bounder, bound: Bound, seed: int, meter: StepMeter) -> None:
        self.problem, self.bounder, self.bound, self.meter = problem, bounder, bound, meter
        self.device_class = device_classes(problem)[0]
        self.random = np.random.default_rng(seed)
        self.pool: PatternPool = {}
        self.lengths = StageLengths(problem, bounder, bound, self.random, meter) if problem.num_stages > 1 else None
        self.frees = False
        """Whether the next dive takes tables off the nodes that they load in the plan: with several stages, by turns until one meets a better."""
        self._reach_for(REACH)

    def _reach_for(self, reach: float) -> None:
        self.reach, self.failed, self.is_first, self.steps_before = reach, 0.0, True, self.meter.steps
        self.drawn: dict[bool, Iterator[DiveLimits | None]] = {}

    def improve(self, plan: Assignment, bound_us: float) -> Iterator[Assignment | None]:
        """One dive: after each step nothing, and at its end a better placement if it met one."""
        problem, dive, found = self.problem, None, None
        best_us = objective_us(problem, loads_of(problem, plan))
        try:
            self.meter.spend(DIVE_STEPS)
            limits = yield from self._limits(plan, best_us, bound_us)
            if limits is not None:
                self.pool.update((tuple(items.tolist()), None) for items in limits.patterns)
                noise = 0.0 if self.is_first else NOISE
                dive = Dive(problem, self.device_class, limits.keep, limits.upper, self.pool, self.random, noise)
                dive.hold(plan, held_tables(problem, plan, frees=self.frees), self._staying(plan, limits.upper))
                found = yield from dive.run(self.meter)
        except OutOfSteps:
            found = None
        self._forget()
        if found is not None and fits(problem, after := loads_of(problem, found)) and objective_us(problem, after) < best_us:
            self._reach_for(min(2 * self.reach, REACH))
            yield found
            return
        self.is_first, self.frees = False, self.lengths is not None and not self.frees
        self.failed += 0.0 if dive is None else dive.unfilled()
        if dive is None or self._is_spent():
            ended = self.reach * (best_us - bound_us) < HARDLY_BETTER * best_us
            self._reach_for(REACH if ended else self.reach / 2)

    def _is_spent(self) -> bool:
        """Whether enough was tried at this reach."""
        if self.lengths is None:
            return self.failed > PATIENCE + self.meter.most_steps / STEPS_PER_PATIENCE
        return self.meter.steps - self.steps_before > PATIENCE_STEPS

    def _limits(self, plan: Assignment, best_us: float, bound_us: float) -> Generator[None, None, DiveLimits | None]:
        """What the next dive keeps to; None where nothing is to be found at this reach. Raises OutOfSteps."""
        target_us = best_us - max(self.reach * (best_us - bound_us), BETTER * best_us)
        if self.lengths is None:
            candidates, _ = self.bounder.candidates(self.bound, target_us)
            return DiveLimits(candidates, np.array([target_us - self.bound.fixed_us]))
        for frees in (self.frees, not self.frees):
            self.frees = frees
            if frees not in self.drawn:
                may = dive_options(self.problem, plan, held_tables(self.problem, plan, frees=frees))
                self.drawn[frees] = self.lengths.draw(target_us, best_us * (1 - BETTER), may)
            for limits in self.drawn[frees]:
                if limits is not None:
                    return limits
                yield
        return None

    def _staying(self, plan: Assignment, upper: Floats) -> Ints:
        """Some of the devices that keep to the limits ([K]) in the plan, where the dive begins with a part of it; else none."""
        if self.lengths is not None or self.reach >= WHOLE:
            return np.empty(0, dtype=np.int64)
        time_us = loads_of(self.problem, plan).time_us[self.device_class.devices] - self.problem.stage_base_us
        devices = self.device_class.devices[(time_us <= upper).all(axis=1)]
        number = round(self.random.uniform(*STAYING) * len(self.device_class.devices))
        return self.random.permutation(devices)[:number]

    def _forget(self) -> None:
        if len(self.pool) > MOST_PATTERNS:
            for pattern in list(self.pool)[:-KEPT_PATTERNS]:
                del self.pool[pattern]
