"""One lane of the search: a placement that is annealed run after run, and what its runs taught about temperatures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from emplace.solver.budget import MOVE_WORK, PAIR_WORK, WAY_WORK
from emplace.solver.local_search.node_assignment import WholeSteps
from emplace.solver.local_search.state import MOST_MEMORY_WEIGHT, Schedule, empty_journal, empty_state, limits_of
from emplace.solver.model.flat import FlatProblem
from emplace.solver.model.problem import Bools, Floats, Ints, Problem
from emplace.solver.native import anneal, greedy, recount, resplit_pairs
from emplace.solver.presolve.granularity import FINEST

TEMPERATURES = (0.005, 0.02, 0.08, 0.25)
"""Temperatures at the start of a run, in mean shares of the target that one table takes on one device."""
COLD = 0.02
"""The share of it that is left at the end of a run."""
FRESH_START = 4
"""After so many failures in a row an exploring lane starts from nothing."""
SLACK, WHOLE_SLACK = 1e-4, 1e-6
"""Shares of a stage's least makespan that the target leaves above it at least; of one that lasts whole steps, a part of a step is of no use."""
MOSTLY = 0.5
"""Share of what a run is late by from which on it is a matter of one stage."""
PAIRS, PAIRS_STAGES = 0.5, 0.8
"""Share of a run's work, at its end, in which pairs of devices are split anew; and with several stages once there is a plan, as pairs
find none where memory is scarce."""


@dataclass(frozen=True)
class Start:
    """What every run of a problem starts from."""

    options: Ints
    """[T] what the relaxation leans to."""
    size_us: Floats
    """[T] what each table adds to the makespans of an even spread."""
    bytes: Floats
    """[T] memory, in shares of one device."""
    first: Ints
    """[T + 1] first option of each table."""
    least_us: Floats
    """[K] the least makespans that are worth aiming for: those of the relaxation, or what whole steps of loads allow."""


@dataclass(frozen=True)
class Goal:
    """What one run aims for. `flat` holds the candidates; with `any_time` only memory matters."""

    flat: FlatProblem
    target_us: float
    work: float
    any_time: bool
    pairs: float
    """Share of the run in which pairs of devices are split anew."""


@dataclass(frozen=True)
class Position:
    """A placement to start from, and how the target was split between the stages."""

    option: Ints
    target: Ints
    makespan_us: Floats


class Lane:
    """`explores`: hotter runs, now and then from nothing. Otherwise every run starts from the best position known."""

    def __init__(
        self, problem: Problem, flat: FlatProblem, start: Start, seed: int, *, explores: bool, squared: bool, steps: WholeSteps
    ) -> None:
        self.problem, self.start, self.squared = problem, start, squared
        self.base = np.append(problem.stage_base_us, 0.0)
        self.state = empty_state(problem, flat, seed)
        self.journal = empty_journal(flat, self.state)
        self.placeable = _placeable(problem, flat)
        self.explores = explores
        self.temperatures = TEMPERATURES if explores else TEMPERATURES[:2]
        self.energy_after = np.zeros(len(self.temperatures))
        self.steps, self.least_us = steps, start.least_us
        self.least_slack_us = start.least_us * np.where(steps.step_us > 0, WHOLE_SLACK, SLACK)
        self.makespan_us = start.least_us + self.least_slack_us
        self.memory_weight: tuple[float, Floats] | None = None
        self.failures = self.moves = 0
        self.overload = np.inf

    def position(self) -> Position:
        """Where the lane is now."""
        return Position(self.state.option.copy(), self.state.target.copy(), self.makespan_us)

    def begin(self, goal: Goal, known: list[Position]) -> None:
        """Take up the position in `known` with the least energy, or go on from the own one when exploring."""
        self.goal, self.done, self.ended = goal, 0.0, False
        if self.explores and self.failures and self.failures % FRESH_START == 0:
            self.state.option[:] = -1
        elif known and not self.explores:
            self._take_up(min(known, key=self._energy_at))
        self._set_limits(self.makespan_us)
        self._place_impossible()
        self.overload = recount(goal.flat, self.limits, self.state, self.base)
        self.temperature = self.failures % len(self.temperatures) if self.explores else int(np.argmin(self.energy_after))
        scale = self.problem.num_devices / float(self.limits.load[0, :-1].sum())
        self.hot = self.temperatures[self.temperature] * float(np.maximum(self.start.size_us * scale, self.start.bytes).mean())

    def run(self, chunk: float) -> float:
        """Anneal, or split pairs anew, for one chunk of work; returns what was done of it."""
        now = min(chunk, self.goal.work - self.done)
        if self.overload == 0.0 or now <= 0.0 or self.ended:
            return 0.0
        spent = self._anneal(now) if self.done < self._annealed() else self._resplit(now)
        self.overload = recount(self.goal.flat, self.limits, self.state, self.base)
        self.done += spent
        return spent

    def _annealed(self) -> float:
        """Work after which pairs are split anew."""
        return self.goal.work * (1.0 - self.goal.pairs)

    def _anneal(self, work: float) -> float:
        total = self._annealed()
        schedule = Schedule(self.done, min(work, total - self.done), total, self.hot, self.hot * COLD, MOVE_WORK)
        _, spent, moves = anneal(self.goal.flat, self.limits, self.state, self.journal, self.overload, schedule)
        self.moves += moves
        return spent

    def _resplit(self, work: float) -> float:
        _, spent = resplit_pairs(self.goal.flat, self.limits, self.state, self.journal, work, PAIR_WORK, WAY_WORK)
        self.ended = spent < work
        return spent

    def end(self, *, success: bool) -> None:
        """Learn from the run."""
        self.energy_after[self.temperature] = self._energy()
        self.failures = 0 if success else self.failures + 1
        self.makespan_us = self.limits.load[0, :-1].copy()
        if not success:
            self._add_step()
        if not self.goal.any_time:
            self.memory_weight = self.limits.weight[-1], self.limits.ddr_weight

    def _add_step(self) -> None:
        """Let a stage of whole steps last one more from now on if it is what a run was late by, and the target has room for one."""
        late_us = np.maximum(self.state.load[:, :-1] - self.limits.load[:, :-1], 0.0).sum(axis=0)
        stage = int(np.argmax(late_us))
        step_us = float(self.steps.step_us[stage])
        if step_us == 0.0 or late_us[stage] <= MOSTLY * late_us.sum():
            return
        longer, whole_us = self.least_us.copy(), float(self.problem.stage_base_us[stage] + self.steps.least_us[stage])
        longer[stage] = whole_us + step_us * (np.floor((longer[stage] - whole_us) / step_us + FINEST) + 1.0)
        if float(longer.sum()) * (1.0 + SLACK) < self.goal.target_us - self.problem.constant_us:
            self.least_us = longer

    def objective_us(self) -> float:
        """The objective of the placement as it is; infinity where it does not fit, or a unit has no place."""
        state, problem = self.state, self.problem
        exceeds = (state.load[:, -1] > problem.hbm_capacity).any() or (state.ddr > problem.ddr_capacity).any()
        if exceeds or self.overload == np.inf:
            return np.inf
        return problem.constant_us + float(state.load[:, :-1].max(axis=0).sum())

    def _set_limits(self, makespan_us: Floats) -> None:
        """The target, split between the stages: what it leaves above the least in the proportions of `makespan_us`."""
        spread, least = self.goal.target_us - self.problem.constant_us, self.least_us
        if float(least.sum()) * (1.0 + SLACK) < spread:
            slack = np.maximum(makespan_us - least, self.least_slack_us)
            makespan = least + slack * ((spread - least.sum()) / max(float(slack.sum()), 1e-9))
        else:
            makespan = makespan_us * (spread / max(float(makespan_us.sum()), 1e-9))
        most = 1.0 if self.goal.any_time else MOST_MEMORY_WEIGHT
        self.limits = limits_of(self.problem, makespan, most, squared=self.squared)
        if self.memory_weight is not None and not self.goal.any_time:
            self.limits.weight[-1], self.limits.ddr_weight[:] = self.memory_weight

    def _take_up(self, position: Position) -> None:
        self.state.option[:], self.state.target[:], self.makespan_us = position.option, position.target, position.makespan_us

    def _energy_at(self, position: Position) -> float:
        self._take_up(position)
        self._set_limits(position.makespan_us)
        return self._energy()

    def _energy(self) -> float:
        """Overload and prices of the placement as it is."""
        overload = recount(self.goal.flat, self.limits, self.state, self.base)
        return float(overload + self.goal.flat.option_price[self.state.option].sum())

    def _place_impossible(self) -> None:
        """Tables that have no option yet, or one that no placement at the target can have, get the relaxation's option,
        or else the least dear candidate for whose units there are targets, where there is most room."""
        flat, state, candidate = self.goal.flat, self.state, np.zeros(self.problem.num_options, dtype=bool)
        candidate[flat.candidate] = True
        impossible = np.flatnonzero((state.option < 0) | ~candidate[state.option])
        price = np.where(candidate & self.placeable, flat.option_price, np.inf)
        least_dear = np.array([a + int(np.argmin(price[a:b])) for a, b in pairwise(self.start.first)])
        options = np.where(candidate[self.start.options] | np.isinf(price[least_dear]), self.start.options, least_dear)
        state.option[impossible] = -1
        recount(flat, self.limits, state, self.base)
        order = impossible[np.argsort(-self.start.size_us[impossible], kind="stable")]
        greedy(flat, self.limits, state, order, options, np.full(len(flat.cover_first) - 1, -1))


def _placeable(problem: Problem, flat: FlatProblem) -> Bools:
    """[O] whether the table may go to as many targets as an option has units: fewer once its node is chosen."""
    targets = [flat.allowed[:, flat.group_target[first:end]].sum(axis=1) for first, end in pairwise(flat.group_first)]
    count = np.stack(targets, axis=1)
    return np.asarray(count[problem.option_table % len(count), flat.option_group] >= np.diff(flat.option_first_unit))
