"""The dearest pattern: which shards one device could hold that are worth most at given prices.

A multiple-choice knapsack with several resources, by depth-first search under a Lagrangian bound and, where that prunes too
little, under one by dynamic programming over two of the resources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from emplace.solver.jit import compiled
from emplace.solver.model.problem import Floats, Ints

ROUNDING = 1e-12
_SUBGRADIENT_STEPS = 120
QUICK_STEPS = 50_000
"""Of the search without a grid, which takes longer to fill."""
CELLS = 128
"""Of a grid along each resource."""
FEW_STEPS, FEW_CELLS = 1_000_000, 64
"""So many cells where no more steps are asked for."""
CELLS_PER_STEP = 20
"""Of a grid, filled in the time of a step of the search."""
INSIDE = 1e-9
"""Of a resource: more than rounding can add to what is used, so that no cell is missed."""


@dataclass(frozen=True)
class Knapsack:
    """At most one item of each table, on one device."""

    first: Ints
    """[T + 1] items of table t are first[t] .. first[t + 1] - 1."""
    use: Floats
    """[I, R] of each resource, as a share of what the device has."""
    time: Floats
    """[I, K]"""
    lower: Floats
    """[K]"""
    held: Floats
    """[K] time on the device besides the items."""
    limit: float
    """sum over k of max(lower[k], held[k] + time of the items) stays within this."""


@dataclass(frozen=True)
class Dearest:
    """`items` holds one item or -1 for each table; None where no pattern is worth more than the threshold."""

    items: Ints | None
    value: float
    finished: bool
    """Whether all patterns were seen: if so none is worth more than `value`."""
    steps: int


class Grid(NamedTuple):
    """What tables are worth at most in what is left of two resources, the others at their Lagrangian prices."""

    resource: Ints
    """[2]"""
    price: Floats
    """[R] of each resource; 0 for those two."""
    worth: Floats
    """[T + 1, cells of the first + 1, of the second + 1] of the tables at a level and below; of no size where there is no grid."""


def dearest(knapsack: Knapsack, value: Floats, threshold: float, most_steps: int) -> Dearest:
    """The pattern worth most by `value` [I], if worth more than `threshold`; after `most_steps` the best one seen."""
    multiplier, score = _multipliers(knapsack, value)
    left = _worth_while(knapsack, value, multiplier, score, threshold)
    if not len(left):
        return Dearest(None, threshold, True, 1)
    table = np.repeat(np.arange(len(score)), np.diff(knapsack.first))[left]
    tables, first = np.unique(table, return_index=True)
    part = replace(knapsack, first=np.append(first, len(left)), use=knapsack.use[left], time=knapsack.time[left])
    found = _dearest(part, value[left], multiplier, score[tables], threshold, most_steps)
    if found.items is None:
        return found
    items = np.full(len(score), -1, dtype=np.int64)
    items[tables] = np.where(found.items >= 0, left[found.items], -1)
    return replace(found, items=items)


def _worth_while(knapsack: Knapsack, value: Floats, multiplier: Floats, score: Floats, threshold: float) -> Ints:
    """The items that patterns worth more than the threshold may hold: by the Lagrangian bound with the item taken."""
    others = multiplier.sum() + score.sum() - np.repeat(score, np.diff(knapsack.first))
    return np.flatnonzero((others + value - knapsack.use @ multiplier > threshold - INSIDE) & (value > 0))


def _dearest(knapsack: Knapsack, value: Floats, multiplier: Floats, score: Floats, threshold: float, most_steps: int) -> Dearest:
    """Without a grid, and if that does not finish with one."""
    order = np.argsort(-score, kind="stable")
    suffix = np.append(np.cumsum(score[order][::-1])[::-1], 0.0)
    quick = _depth_first(knapsack, value, order, _no_grid(), suffix, multiplier, threshold, min(most_steps, QUICK_STEPS))
    if quick.finished or most_steps <= QUICK_STEPS:
        return quick
    grid, steps = _completions(knapsack, value, order, multiplier, CELLS if most_steps > FEW_STEPS else FEW_CELLS)
    better = threshold if quick.items is None else quick.value
    slow = _depth_first(knapsack, value, order, grid, suffix, multiplier, better, most_steps)
    found = slow if slow.items is not None else quick
    return replace(found, finished=slow.finished, steps=quick.steps + slow.steps + steps)


def _depth_first(
    knapsack: Knapsack, value: Floats, order: Ints, grid: Grid, suffix: Floats, multiplier: Floats, threshold: float, most_steps: int
) -> Dearest:
    """Decides on tables in `order`; what those from a level on are worth is at most `suffix` and the room's worth, and the grid's."""
    tables, resources = len(order), knapsack.use.shape[1]
    best = np.full(tables, -1, dtype=np.int64)
    steps = np.zeros(2, dtype=np.int64)
    worth = _search(
        knapsack.first,
        knapsack.use,
        knapsack.time,
        knapsack.lower,
        knapsack.limit * (1 + ROUNDING),
        value,
        order,
        grid,
        suffix,
        multiplier,
        threshold,
        most_steps,
        np.zeros((tables + 1, resources)),
        np.concatenate([knapsack.held[None, :], np.zeros((tables, len(knapsack.held)))]),
        np.zeros(tables + 1),
        np.zeros(tables + 1, dtype=np.int64),
        np.full(tables, -1, dtype=np.int64),
        best,
        steps,
    )
    return Dearest(best if worth > threshold else None, worth, bool(steps[1] == 0), int(steps[0]))


def _no_grid() -> Grid:
    return Grid(np.zeros(2, dtype=np.int64), np.empty(0), np.empty((0, 0, 0)))


def _completions(knapsack: Knapsack, value: Floats, order: Ints, multiplier: Floats, along: int) -> tuple[Grid, int]:
    """For the two dearest resources, with what items use rounded down to whole cells; and how many steps that counts for."""
    resource = np.argsort(-multiplier, kind="stable")[[0, min(1, len(multiplier) - 1)]]
    cells = np.array([along, along if len(multiplier) > 1 else 0])
    price = multiplier.copy()
    price[resource] = 0.0
    cell = np.floor(knapsack.use[:, resource] * cells).astype(np.int64)
    worth = np.zeros((len(order) + 1, cells[0] + 1, cells[1] + 1))
    _fill(knapsack.first, cell, value - knapsack.use @ price, order, worth)
    return Grid(resource, price, worth), int(len(cell) * worth[0].size / CELLS_PER_STEP)


@compiled
def _fill(first: Ints, cell: Ints, value: Floats, order: Ints, worth: Floats) -> None:
    """The most that at most one item of each table is worth, from the last table up."""
    for level in range(len(order) - 1, -1, -1):
        for i in range(worth.shape[1]):
            for j in range(worth.shape[2]):
                worth[level, i, j] = worth[level + 1, i, j]
        for item in range(first[order[level]], first[order[level] + 1]):
            a, b = cell[item, 0], cell[item, 1]
            for i in range(a, worth.shape[1]):
                for j in range(b, worth.shape[2]):
                    worth[level, i, j] = max(worth[level, i, j], value[item] + worth[level + 1, i - a, j - b])


@compiled
def _left(grid: Grid, used: Floats, level: int) -> float:
    """What tables at this level and below add at most, in the grid."""
    left = 0.0
    for r in range(len(grid.price)):
        left += grid.price[r] * (1.0 - used[level, r])
    i = int((1.0 + INSIDE - used[level, grid.resource[0]]) * (grid.worth.shape[1] - 1))
    j = int((1.0 + INSIDE - used[level, grid.resource[1]]) * (grid.worth.shape[2] - 1))
    return float(left + grid.worth[level, i, j])


def _multipliers(knapsack: Knapsack, value: Floats) -> tuple[Floats, Floats]:
    """Prices [R] of the resources that make the Lagrangian bound small, and what each table adds to it at most [T]."""
    total = max(float(value.max(initial=0.0)), 1e-12)
    multiplier = np.full(knapsack.use.shape[1], total)
    best = multiplier.copy()
    score = np.zeros(len(knapsack.first) - 1)
    _subgradient(knapsack.first, knapsack.use, value, multiplier, best, np.zeros_like(best), score, total, _SUBGRADIENT_STEPS)
    return best, score


@compiled
def _best_item(first: Ints, use: Floats, value: Floats, multiplier: Floats, table: int) -> tuple[float, int]:
    """The most that an item of the table adds to the Lagrangian bound, and which one; 0 and -1 where none adds anything."""
    top, chosen = 0.0, -1
    for item in range(first[table], first[table + 1]):
        worth = value[item]
        for r in range(use.shape[1]):
            worth -= multiplier[r] * use[item, r]
        if worth > top:
            top, chosen = worth, item
    return top, chosen


@compiled
def _subgradient(
    first: Ints, use: Floats, value: Floats, multiplier: Floats, best: Floats, slack: Floats, score: Floats, total: float, rounds: int
) -> None:
    """Minimise  sum(multiplier) + sum over tables of max(0, value - multiplier . use)  into `best` and `score`."""
    tables, resources = len(first) - 1, use.shape[1]
    least, step = np.inf, 0.5 * total
    for _ in range(rounds):
        bound = 0.0
        for r in range(resources):
            slack[r] = 1.0
            bound += multiplier[r]
        for t in range(tables):
            top, chosen = _best_item(first, use, value, multiplier, t)
            bound += top
            if chosen >= 0:
                for r in range(resources):
                    slack[r] -= use[chosen, r]
        norm = 1e-12
        for r in range(resources):
            norm += slack[r] * slack[r]
            if bound < least:
                best[r] = multiplier[r]
        least = min(least, bound)
        for r in range(resources):
            multiplier[r] = max(0.0, multiplier[r] - step * slack[r] / np.sqrt(norm))
        step *= 0.955
    for t in range(tables):
        score[t] = _best_item(first, use, value, best, t)[0]


@compiled
def _with(use: Floats, time: Floats, lower: Floats, limit: float, item: int, level: int, used: Floats, spent: Floats) -> bool:
    """Adds an item (-1: nothing) to what is used at `level`, for the next level; whether it fits."""
    fits, total = True, 0.0
    for r in range(use.shape[1]):
        used[level + 1, r] = used[level, r] + (use[item, r] if item >= 0 else 0.0)
        fits = fits and used[level + 1, r] <= 1.0 + ROUNDING
    for k in range(time.shape[1]):
        spent[level + 1, k] = spent[level, k] + (time[item, k] if item >= 0 else 0.0)
        total += max(lower[k], spent[level + 1, k])
    return fits and total <= limit


@compiled
def _room(multiplier: Floats, used: Floats, level: int) -> float:
    """What the resources left at `level` are worth at most."""
    worth = 0.0
    for r in range(len(multiplier)):
        worth += multiplier[r] * (1.0 - used[level, r])
    return worth


@compiled
def _search(
    first: Ints,
    use: Floats,
    time: Floats,
    lower: Floats,
    limit: float,
    value: Floats,
    order: Ints,
    grid: Grid,
    suffix: Floats,
    multiplier: Floats,
    threshold: float,
    most_steps: int,
    used: Floats,
    spent: Floats,
    worth: Floats,
    at: Ints,
    chosen: Ints,
    best: Ints,
    steps: Ints,
) -> float:
    """The most that a pattern above `threshold` is worth, its items in `best`; `threshold` where there is none.

    Level j decides on table order[j]: its items in turn, then none. steps[0] counts, steps[1] says that they ran out.
    """
    top, level = threshold, 0
    at[0] = first[order[0]]
    while level >= 0:
        if level == len(order):
            if worth[level] > top:
                top = worth[level]
                for t in range(len(order)):
                    best[t] = chosen[t]
            level -= 1
            continue
        table, item = order[level], at[level]
        if item > first[table + 1]:
            level -= 1
            continue
        at[level] += 1
        steps[0] += 1
        if steps[0] >= most_steps:
            steps[1] = 1
            return top
        chosen[table] = item if item < first[table + 1] else -1
        worth[level + 1] = worth[level] + (value[item] if chosen[table] >= 0 else 0.0)
        fits = _with(use, time, lower, limit, chosen[table], level, used, spent)
        fits = fits and worth[level + 1] + suffix[level + 1] + _room(multiplier, used, level + 1) > top
        if fits and (len(grid.worth) == 0 or worth[level + 1] + _left(grid, used, level + 1) > top):
            level += 1
            if level < len(order):
                at[level] = first[order[level]]
    return top
