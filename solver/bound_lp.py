"""The linear program over aggregated rows, by column generation, and the Lagrangian bound that certifies its value.

    minimise sum of price[k] s[k]   over  x >= 0, sum of x over the options of a table = 1,
                                          lower[k] <= s[k],  sum of s[k] <= budget,  the Rows

Few options per table are ever useful, so a master program holds some of them and the others are priced out by its duals.
Whatever duals the solver returns, the Lagrangian function evaluated at them is a bound: its value, and not the solver's
word, is what a plan is measured against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from solver.bound_rows import Rows
from solver.problem import Bools, Floats, Ints

_linprog: Any = linprog  # its stubs don't know sparse matrices

MAX_ROUNDS = 40
PRECISION = 1e-6
COLUMNS_PER_ROUND = 2
FEW = 4
"""Options per table below which all of them go into the master at once."""
OVERLOAD_PRICE = 1e3
"""Of a capacity exceeded once over, in sums of makespans: far above any price that capacity can have on real hosts."""


@dataclass(frozen=True)
class Program:
    """What to relax: rows, the options of each table, which of them may be used, limits of each s and of their sum."""

    rows: Rows
    first: Ints
    usable: Bools
    lower: Floats
    price: Floats
    budget: float = np.inf

    @property
    def tables(self) -> int:
        return len(self.first) - 1


@dataclass(frozen=True)
class Relaxation:
    """`bound` holds for every placement that keeps to the program; infinity when there is none."""

    bound: float
    """Of the priced sum of s."""
    makespan: Floats
    """[K] s of the linear program."""
    x: Floats
    """[O]"""
    reduced_cost: Floats
    """[O] at least what choosing this option adds to `bound`; infinity for unusable options."""
    dual: Floats
    """[R + 1] of the rows and of the budget."""

    @property
    def feasible(self) -> bool:
        return bool(np.isfinite(self.bound))


def relax(program: Program, start: Bools | None = None) -> Relaxation:
    """Solve, starting from the options in `start` ([O]) beside the few best under some plain prices."""
    usable = np.where(program.usable, 0.0, np.inf)
    if np.isinf(np.minimum.reduceat(usable, program.first[:-1])).any():
        return _infeasible(program)
    scale = _time_scale(program)
    columns = start & program.usable if start is not None else np.zeros_like(program.usable)
    columns |= program.usable if program.usable.sum() <= FEW * program.tables else _first_columns(program, scale, columns)
    solution = _generate(program, columns, scale, elastic=False)
    if solution.overload <= PRECISION:
        return solution.relaxation
    overload = _generate(program, columns, scale, elastic=True)
    return _infeasible(program) if overload.relaxation.bound > PRECISION else solution.relaxation


def lagrangian(program: Program, dual: Floats, *, elastic: bool = False) -> tuple[float, Floats, Floats]:
    """The bound that `dual` >= 0 proves, every option's cost under it, and each table's least.

    With `elastic` the objective is the overload of the elastic rows, and nothing else.
    """
    rows, on_budget = program.rows, dual[-1]
    dual = dual[:-1]
    cost = np.where(program.usable, rows.coefficient @ dual, np.inf)
    least = np.minimum.reduceat(cost, program.first[:-1])
    price = (0.0 if elastic else program.price) + on_budget
    margin = price - np.bincount(rows.stage[~rows.memory], weights=(dual * rows.slope)[~rows.memory], minlength=len(program.lower))
    if (margin < 0).any():
        return -np.inf, cost, least
    budget = on_budget * program.budget if on_budget > 0 else 0.0
    return float(least.sum() - dual @ rows.capacity + margin @ program.lower - budget), cost, least


@dataclass(frozen=True)
class _Solution:
    relaxation: Relaxation
    overload: float
    """Of all memory rows and the budget together, in shares of their limit."""


def _generate(program: Program, columns: Bools, scale: float, *, elastic: bool) -> _Solution:
    """Add priced-out options to `columns` until the Lagrangian bound meets the master's value."""
    best = -np.inf, np.zeros(len(program.rows.stage) + 1)
    for _ in range(MAX_ROUNDS):
        value, x, makespan, overload, dual = _master(program, columns, scale, elastic)
        dual = _scaled_into_bounds(program, dual, elastic)
        bound, cost, _ = lagrangian(program, dual, elastic=elastic)
        if bound > best[0]:
            best = bound, dual
        missing = _missing_columns(program, columns, cost)
        if value - best[0] <= PRECISION * max(abs(value), 1e-9 * scale) or not missing.any():
            break
        columns |= missing
    bound, cost, least = lagrangian(program, best[1], elastic=elastic)
    reduced = cost - np.repeat(least, np.diff(program.first))
    return _Solution(Relaxation(bound, makespan, x, reduced, best[1]), overload)


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
    """The sum of makespans if every table took its quickest option: sets the unit of time in the master."""
    rows = program.rows
    time = rows.coefficient[:, ~rows.memory].sum(axis=1)
    least = np.minimum.reduceat(np.where(program.usable, time, np.inf), program.first[:-1])
    settled = -float(rows.capacity[~rows.memory].min(initial=0.0))
    return max(float(least.sum()) + settled, float(program.lower.sum()), 1e-9)


def _first_columns(program: Program, scale: float, given: Bools) -> Bools:
    """The cheapest option of each table under each of some mixes of time and memory; of tables with given options, one."""
    rows = program.rows
    columns = np.zeros(len(program.usable), dtype=bool)
    time = rows.coefficient[:, ~rows.memory].sum(axis=1) / scale
    memory = rows.coefficient[:, rows.memory]
    mixes = [memory.sum(axis=1)]
    if not given.any():
        mixes += [time, *(time + weight * memory[:, row] for row in range(memory.shape[1]) for weight in (0.03, 0.3, 3.0))]
    for mix in mixes:
        cost = np.where(program.usable, mix, np.inf)
        least = np.repeat(np.minimum.reduceat(cost, program.first[:-1]), np.diff(program.first))
        best = np.flatnonzero(cost == least)
        _, first = np.unique(np.searchsorted(program.first, best, side="right"), return_index=True)
        columns[best[first]] = True
    return columns


def _master(program: Program, columns: Bools, scale: float, elastic: bool) -> tuple[float, Floats, Floats, float, Floats]:
    """Value, x [O], makespans, overload and duals of the program over `columns`, memory and budget elastic at a high price."""
    rows, chosen, stages = program.rows, np.flatnonzero(columns), len(program.lower)
    weight = np.where(rows.memory, 1.0, scale)
    makespans = np.zeros((len(rows.stage), stages))
    makespans[~rows.memory, rows.stage[~rows.memory]] = -rows.slope[~rows.memory]
    matrix = hstack([csr_array(rows.coefficient[chosen].T / weight[:, None]), csr_array(makespans)])
    limit = rows.capacity / weight
    soft = np.flatnonzero(rows.memory)
    if np.isfinite(program.budget):
        budget_row = np.concatenate([np.zeros(len(chosen)), np.full(stages, scale / program.budget)])
        matrix, limit = vstack([matrix, csr_array(budget_row[None, :])]), np.append(limit, 1.0)
        soft = np.append(soft, len(limit) - 1)
    overload = csr_array((np.full(len(soft), -1.0), (soft, np.arange(len(soft)))), shape=(len(limit), len(soft)))
    table = np.searchsorted(program.first, chosen, side="right") - 1
    one_each = csr_array((np.ones(len(chosen)), (table, np.arange(len(chosen)))), shape=(program.tables, len(chosen) + stages + len(soft)))
    price = np.zeros(stages) if elastic else program.price
    lowest = np.concatenate([np.zeros(len(chosen)), program.lower / scale, np.zeros(len(soft))])
    rows_and_columns = {
        "A_ub": hstack([matrix, overload]),
        "b_ub": limit,
        "A_eq": one_each,
        "b_eq": np.ones(program.tables),
    }
    cost = np.concatenate([np.zeros(len(chosen)), price, np.full(len(soft), 1.0 if elastic else OVERLOAD_PRICE)])
    limits = np.stack([lowest, np.full_like(lowest, np.inf)], axis=1)
    result = _linprog(cost, bounds=limits, method="highs", **rows_and_columns)
    if result.x is None:
        raise RuntimeError(f"the linear program was not solved: {result.message}")
    x = np.zeros(len(columns))
    x[chosen] = result.x[: len(chosen)]
    unit = 1.0 if elastic else scale
    dual = -np.asarray(result.ineqlin.marginals) * unit
    on_budget = dual[-1] / program.budget if np.isfinite(program.budget) else 0.0
    dual = np.append(dual[: len(rows.stage)] / weight, on_budget)
    makespan = result.x[len(chosen) : len(chosen) + stages] * scale
    return float(result.fun * unit), x, makespan, float(result.x[len(chosen) + stages :].sum()), dual


def _infeasible(program: Program) -> Relaxation:
    options, stages = len(program.usable), len(program.lower)
    return Relaxation(np.inf, np.full(stages, np.inf), np.zeros(options), np.zeros(options), np.zeros(len(program.rows.stage) + 1))
