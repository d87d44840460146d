"""The linear program over aggregated rows, by column generation, and the Lagrangian bound that certifies its value.

    minimise sum of price[k] s[k]   over  x >= 0, sum of x over the options of a table = 1,
                                          lower[k] <= s[k],  sum of s[k] <= budget,  the Rows

Few options per table are ever useful, so a master program holds some of them and the others are priced out by its duals.
Whatever duals the solver returns, the Lagrangian function evaluated at them is a bound: its value, and not the solver's
word, is what a plan is measured against. So there is a bound whenever the clock ends this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from emplace.solver.budget import BOUND_ROUNDING, LP_PRECISION
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.model.problem import Bools, Floats, Ints
from emplace.solver.relaxation.master import Optimum, OptionMaster
from emplace.solver.relaxation.program import Program, Relaxation, StartingPoint

MAX_ROUNDS = 40
"""Times that the master is solved at most: where it has not met the bound by then, the bound is the best so far."""
LEAST_SCALE = 1e-9
"""Share of the slowest option that the unit of time is at least: HiGHS refuses coefficients beyond 1e15."""
COLUMNS_PER_ROUND = 2
"""Options of each table that are added in a round."""
FEW = 4
"""Options per table below which all of them go into the master at once."""


def relax(program: Program, start: StartingPoint | None = None, clock: Clock = ENDLESS) -> Relaxation:
    """Solve, from options that are best under some plain prices, or from `start`."""
    return _infeasible(program) if program.lacks_options else _Generation(program, start, clock).relaxation(program.price)


def least_makespans(program: Program, start: StartingPoint, stages: Ints, clock: Clock = ENDLESS) -> Floats:
    """[of stages] what s of each is at least, whatever its price."""
    if program.lacks_options:
        return np.full(len(stages), np.inf)
    generation = _Generation(program, start, clock)
    return np.array([generation.relaxation(price).bound for price in np.eye(len(program.lower))[stages]])


class Lagrangian(NamedTuple):
    """What duals prove."""

    bound: float
    cost: Floats
    """[O] of every option under them."""
    least: Floats
    """[T] of every table."""
    dual: Floats
    """[R + 1]"""


def lagrangian(program: Program, duals: Floats, *, elastic: bool = False) -> Lagrangian:
    """What `duals` >= 0 of the rows and of the budget ([R + 1]) prove.

    With `elastic` the objective is the overload of the elastic rows, and nothing else.
    """
    rows, on_budget = program.rows, duals[-1]
    dual = duals[:-1]
    cost = np.where(program.usable, rows.weighed(dual), np.inf)
    least = np.minimum.reduceat(cost, program.first[:-1])
    price = (0.0 if elastic else program.price) + on_budget
    margin = price - np.bincount(rows.stage[~rows.memory], weights=(dual * rows.slope)[~rows.memory], minlength=len(program.lower))
    if (margin < 0).any():
        return Lagrangian(-np.inf, cost, least, duals)
    budget = on_budget * program.budget if on_budget > 0 else 0.0
    return Lagrangian(float(least.sum() - dual @ rows.capacity + margin @ program.lower - budget), cost, least, duals)


@dataclass(frozen=True)
class _Solution:
    relaxation: Relaxation
    overload: float
    """What all memory rows and the budget are exceeded by, in shares of their limit."""


class _Generation:
    """A master program and the options that it holds."""

    def __init__(self, program: Program, start: StartingPoint | None, clock: Clock) -> None:
        self.program, self.clock = program, clock
        self.scale = _time_scale(program) if start is None else start.scale
        self.master = OptionMaster(program.rows, program.tables, program.lower, program.budget, self.scale)
        self.table = np.repeat(np.arange(program.tables), np.diff(program.first))
        self.held = np.zeros_like(program.usable)
        self.order = np.empty(0, dtype=np.int64)
        given = start.taken & program.usable if start is not None else self.held
        few = program.usable.sum() <= FEW * program.tables
        self._add(given | (program.usable if few else _first_columns(program, self.scale, given)))
        if start is not None:
            self.master.start_at(self._basic(given), start.dual)

    def relaxation(self, price: Floats) -> Relaxation:
        """With such a price of each s."""
        program = replace(self.program, price=price)
        solution = self._run(program, elastic=False)
        if solution.overload <= LP_PRECISION or self.clock.is_over:
            return solution.relaxation
        overload = self._run(program, elastic=True)
        return _infeasible(program) if overload.relaxation.bound > LP_PRECISION else solution.relaxation

    def _run(self, program: Program, *, elastic: bool) -> _Solution:
        """Add priced-out options until the Lagrangian bound meets the master's value, or the clock ends it."""
        best: Lagrangian | None = None
        optimum: Optimum | None = None
        for _ in range(MAX_ROUNDS):
            solved = self.master.solve(program.price, elastic=elastic, seconds=self.clock.left_s)
            if solved is None:
                break
            optimum = solved
            proven = lagrangian(program, _scaled_into_bounds(program, optimum.dual, elastic), elastic=elastic)
            best = proven if best is None else _higher(best, proven)
            if optimum.value - best.bound <= LP_PRECISION * max(abs(optimum.value), 1e-9 * self.scale):
                break
            missing = _missing_columns(program, self.held, proven.cost)
            if not missing.any():
                break
            self._add(missing)
        if best is None or best.bound == -np.inf or self.clock.is_over:
            at_once = lagrangian(program, even_dual(program, elastic=elastic), elastic=elastic)
            best = at_once if best is None else _higher(best, at_once)
        reduced = best.cost - np.repeat(best.least, np.diff(program.first))
        if optimum is None:
            return _Solution(_cheapest(program, best, reduced, self.scale), np.inf)
        x = np.zeros(len(self.held))
        x[self.order[: len(optimum.x)]] = optimum.x
        return _Solution(Relaxation(best.bound, optimum.makespan, x, reduced, best.dual, self.scale), optimum.overload)

    def _basic(self, given: Bools) -> Bools:
        """[of the options, as they were added] those given, and one of each table without."""
        basic, table = given[self.order], self.table[self.order]
        others = np.flatnonzero(~np.isin(table, table[basic]))
        _, first = np.unique(table[others], return_index=True)
        basic[others[first]] = True
        return basic

    def _add(self, columns: Bools) -> None:
        options = np.flatnonzero(columns)
        self.master.add(options, self.table[options])
        self.held |= columns
        self.order = np.append(self.order, options)


def _higher(one: Lagrangian, other: Lagrangian) -> Lagrangian:
    return other if other.bound > one.bound else one


def even_dual(program: Program, *, elastic: bool = False) -> Floats:
    """That every stage lasts as long as the mean over its rows, whatever the memory: known without any linear program."""
    rows = program.rows
    price = np.zeros(len(program.lower)) if elastic else program.price
    in_stage = np.bincount(rows.stage[~rows.memory], minlength=len(price))
    each = price / np.maximum(in_stage, 1) * (1 - BOUND_ROUNDING)
    return np.append(np.where(rows.memory, 0.0, each[rows.stage]), 0.0)


def _cheapest(program: Program, proven: Lagrangian, reduced_cost: Floats, scale: float) -> Relaxation:
    """In place of a solution: every table takes the option that is cheapest under the duals."""
    rows, x = program.rows, np.zeros(len(reduced_cost))
    cheapest = np.flatnonzero(reduced_cost == 0.0)
    _, first = np.unique(np.searchsorted(program.first, cheapest, side="right"), return_index=True)
    x[cheapest[first]] = 1.0
    makespan = program.lower.copy()
    np.maximum.at(makespan, rows.stage[~rows.memory], (x @ rows.coefficient - rows.capacity)[~rows.memory])
    return Relaxation(proven.bound, makespan, x, reduced_cost, proven.dual, scale)


def _scaled_into_bounds(program: Program, dual: Floats, elastic: bool) -> Floats:
    """The duals of a makespan must not exceed its price: shave what rounding left over.

    Elastic rows need no such care: their overload has no upper limit, but its price is only approached from below.
    """
    rows = program.rows
    dual = np.maximum(dual, 0.0)
    if elastic:
        dual = np.append(np.where(rows.memory, np.minimum(dual[:-1], 1.0), dual[:-1]), min(dual[-1], 1.0 / program.budget))
    price = (0.0 if elastic else program.price) + dual[-1]
    total = np.bincount(rows.stage[~rows.memory], weights=(dual[:-1] * rows.slope)[~rows.memory], minlength=len(program.lower))
    shave = np.where(total > price, price / np.maximum(total, 1e-300) * (1 - 1e-15), 1.0)
    return np.append(np.where(rows.memory, dual[:-1], dual[:-1] * shave[rows.stage]), dual[-1])


def _missing_columns(program: Program, columns: Bools, cost: Floats) -> Bools:
    """The cheapest options of each table that are cheaper than every one it has in the master."""
    held = np.repeat(np.minimum.reduceat(np.where(columns, cost, np.inf), program.first[:-1]), np.diff(program.first))
    candidates = np.flatnonzero(held - cost > 1e-12 * np.abs(held))
    table = np.searchsorted(program.first, candidates, side="right")
    order = np.lexsort((cost[candidates], table))
    candidates, table = candidates[order], table[order]
    rank = np.arange(len(table)) - np.searchsorted(table, table)
    missing = np.zeros_like(columns)
    missing[candidates[rank < COLUMNS_PER_ROUND]] = True
    return missing


def _time_scale(program: Program) -> float:
    """The sum of makespans if every table took its quickest option: sets the unit of time in the master.

    Where that is nothing, a little of the slowest option: HiGHS refuses coefficients beyond 1e15.
    """
    rows = program.rows
    time = rows.weighed((~rows.memory).astype(np.float64))
    least = np.minimum.reduceat(np.where(program.usable, time, np.inf), program.first[:-1])
    settled = -float(rows.capacity[~rows.memory].min(initial=0.0))
    most = float(time[program.usable].max(initial=0.0))
    return max(float(least.sum()) + settled, float(program.lower.sum()), LEAST_SCALE * most) or 1.0


def _first_columns(program: Program, scale: float, given: Bools) -> Bools:
    """The cheapest option of each table under each of some mixes of time and memory; of tables with given options, one."""
    rows = program.rows
    columns = np.zeros(len(program.usable), dtype=bool)
    memory = rows.coefficient[:, rows.memory]
    mixes = [memory.sum(axis=1)]
    if not given.any():
        time = rows.weighed((~rows.memory).astype(np.float64)) / scale
        mixes += [time, *(time + weight * memory[:, row] for row in range(memory.shape[1]) for weight in (0.03, 0.3, 3.0))]
    for mix in mixes:
        cost = np.where(program.usable, mix, np.inf)
        least = np.repeat(np.minimum.reduceat(cost, program.first[:-1]), np.diff(program.first))
        best = np.flatnonzero(cost == least)
        _, first = np.unique(np.searchsorted(program.first, best, side="right"), return_index=True)
        columns[best[first]] = True
    return columns


def _infeasible(program: Program) -> Relaxation:
    options, stages = len(program.usable), len(program.lower)
    return Relaxation(np.inf, np.full(stages, np.inf), np.zeros(options), np.zeros(options), np.zeros(len(program.rows.stage) + 1), 1.0)
