"""The pricing problem: the most violated pattern, what one device could hold that is worth most at given prices.

A multiple-choice knapsack with several resources, by depth-first search under a Lagrangian bound and, where that prunes too
little, under one by dynamic programming over two of the resources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from emplace.solver.budget import GRID_CELLS_PER_STEP, INSIDE_CELL, SAME_SUM
from emplace.solver.jit import compiled
from emplace.solver.model.problem import Floats, Ints

_SUBGRADIENT_STEPS = 120
"""Improvements of the Lagrangian prices before a search."""
QUICK_STEPS = 50_000
"""Steps that the search may take without a grid: filling one takes longer than so many."""
CELLS = 128
"""Cells of a grid along each resource."""
FEW_STEPS, FEW_CELLS = 1_000_000, 64
"""Cells where at most so many steps are asked for."""


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
class BestPattern:
    """The most valuable pattern that was seen."""

    items: Ints | None
    """[T] one item of each table or -1; None where no pattern is worth more than the threshold."""
    value: float
    """What it is worth; the threshold where there is none."""
    finished: bool
    """Whether all patterns were seen: if so none is worth more than `value`."""
    steps: int


class _Grid(NamedTuple):
    """What tables are worth at most in what is left of two resources, the others at their Lagrangian prices."""

    resource: Ints
    """[2]"""
    price: Floats
    """[R] of each resource; 0 for those two."""
    worth: Floats
    """[T + 1, cells of the first + 1, of the second + 1] of the tables at a level and below; of no size where there is no grid."""


class _Items(NamedTuple):
    """The knapsack, and what its items are worth."""

    first: Ints
    """[T + 1]"""
    use: Floats
    """[I, R]"""
    time: Floats
    """[I, K]"""
    value: Floats
    """[I]"""
    lower: Floats
    """[K]"""
    limit: float


class _Bounds(NamedTuple):
    """What bounds the worth of the tables that are still to be decided, in the order of the search."""

    order: Ints
    """[T] the table of each level."""
    suffix: Floats
    """[T + 1] what the tables at a level and below add to the Lagrangian bound."""
    multiplier: Floats
    """[R]"""
    grid: _Grid


class _Path(NamedTuple):
    """Where the search is, and the best pattern so far."""

    used: Floats
    """[T + 1, R] of the resources, above each level."""
    spent: Floats
    """[T + 1, K] of the time."""
    worth: Floats
    """[T + 1]"""
    at: Ints
    """[T + 1] the item that is tried next."""
    chosen: Ints
    """[T] the item of each table, or -1."""
    best: Ints
    """[T]"""
    steps: Ints
    """[2] how many were taken, and whether they ran out."""


def most_violated(knapsack: Knapsack, value: Floats, threshold: float, most_steps: int) -> BestPattern:
    """The pattern worth most by `value` [I], if worth more than `threshold`; after `most_steps` the best one seen."""
    multiplier, score = _multipliers(knapsack, value)
    left = _worth_while(knapsack, value, multiplier, score, threshold)
    if not len(left):
        return BestPattern(None, threshold, True, 1)
    table = np.repeat(np.arange(len(score)), np.diff(knapsack.first))[left]
    tables, first = np.unique(table, return_index=True)
    part = replace(knapsack, first=np.append(first, len(left)), use=knapsack.use[left], time=knapsack.time[left])
    found = _best_pattern(part, value[left], multiplier, score[tables], threshold, most_steps)
    if found.items is None:
        return found
    items = np.full(len(score), -1, dtype=np.int64)
    items[tables] = np.where(found.items >= 0, left[found.items], -1)
    return replace(found, items=items)


def _worth_while(knapsack: Knapsack, value: Floats, multiplier: Floats, score: Floats, threshold: float) -> Ints:
    """The items that patterns worth more than the threshold may hold: by the Lagrangian bound with the item taken."""
    others = multiplier.sum() + score.sum() - np.repeat(score, np.diff(knapsack.first))
    return np.flatnonzero((others + value - knapsack.use @ multiplier > threshold - INSIDE_CELL) & (value > 0))


def _best_pattern(knapsack: Knapsack, value: Floats, multiplier: Floats, score: Floats, threshold: float, most_steps: int) -> BestPattern:
    """Searches without a grid, and if that does not finish with one."""
    order = np.argsort(-score, kind="stable")
    suffix = np.append(np.cumsum(score[order][::-1])[::-1], 0.0)
    bounds = _Bounds(order, suffix, multiplier, _no_grid())
    quick = _depth_first(knapsack, value, bounds, threshold, min(most_steps, QUICK_STEPS))
    if quick.finished or most_steps <= QUICK_STEPS:
        return quick
    grid, steps = _completions(knapsack, value, order, multiplier, CELLS if most_steps > FEW_STEPS else FEW_CELLS)
    slow = _depth_first(knapsack, value, bounds._replace(grid=grid), threshold if quick.items is None else quick.value, most_steps)
    found = slow if slow.items is not None else quick
    return replace(found, finished=slow.finished, steps=quick.steps + slow.steps + steps)


def _depth_first(knapsack: Knapsack, value: Floats, bounds: _Bounds, threshold: float, most_steps: int) -> BestPattern:
    """The best pattern above the threshold, deciding on one table after the other."""
    tables, resources = len(bounds.order), knapsack.use.shape[1]
    path = _Path(
        used=np.zeros((tables + 1, resources)),
        spent=np.concatenate([knapsack.held[None, :], np.zeros((tables, len(knapsack.held)))]),
        worth=np.zeros(tables + 1),
        at=np.zeros(tables + 1, dtype=np.int64),
        chosen=np.full(tables, -1, dtype=np.int64),
        best=np.full(tables, -1, dtype=np.int64),
        steps=np.zeros(2, dtype=np.int64),
    )
    worth = _search(_items_of(knapsack, value), bounds, path, threshold, most_steps)
    return BestPattern(path.best if worth > threshold else None, worth, bool(path.steps[1] == 0), int(path.steps[0]))


def _no_grid() -> _Grid:
    return _Grid(np.zeros(2, dtype=np.int64), np.empty(0), np.empty((0, 0, 0)))


def _completions(knapsack: Knapsack, value: Floats, order: Ints, multiplier: Floats, along: int) -> tuple[_Grid, int]:
    """For the two dearest resources, with what items use rounded down to whole cells; and how many steps that counts for."""
    resource = np.argsort(-multiplier, kind="stable")[[0, min(1, len(multiplier) - 1)]]
    cells = np.array([along, along if len(multiplier) > 1 else 0])
    price = multiplier.copy()
    price[resource] = 0.0
    cell = np.floor(knapsack.use[:, resource] * cells).astype(np.int64)
    worth = np.zeros((len(order) + 1, cells[0] + 1, cells[1] + 1))
    _fill(knapsack.first, cell, value - knapsack.use @ price, order, worth)
    return _Grid(resource, price, worth), int(len(cell) * worth[0].size / GRID_CELLS_PER_STEP)


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
def _left(grid: _Grid, used: Floats, level: int) -> float:
    """What tables at this level and below add at most, in the grid."""
    left = 0.0
    for r in range(len(grid.price)):
        left += grid.price[r] * (1.0 - used[level, r])
    i = int((1.0 + INSIDE_CELL - used[level, grid.resource[0]]) * (grid.worth.shape[1] - 1))
    j = int((1.0 + INSIDE_CELL - used[level, grid.resource[1]]) * (grid.worth.shape[2] - 1))
    return float(left + grid.worth[level, i, j])


def _multipliers(knapsack: Knapsack, value: Floats) -> tuple[Floats, Floats]:
    """Prices [R] of the resources that make the Lagrangian bound small, and what each table adds to it at most [T]."""
    total = max(float(value.max(initial=0.0)), 1e-12)
    prices = np.full((2, knapsack.use.shape[1]), total)
    score = np.zeros(len(knapsack.first) - 1)
    _subgradient(_items_of(knapsack, value), prices, np.zeros(knapsack.use.shape[1]), score, total, _SUBGRADIENT_STEPS)
    return prices[1].copy(), score


def _items_of(knapsack: Knapsack, value: Floats) -> _Items:
    return _Items(knapsack.first, knapsack.use, knapsack.time, value, knapsack.lower, knapsack.limit * (1 + SAME_SUM))


@compiled
def _best_item(items: _Items, prices: Floats, row: int, table: int) -> tuple[float, int]:
    """The most that an item of the table adds to the Lagrangian bound, and which one; 0 and -1 where none adds anything."""
    top, chosen = 0.0, -1
    for item in range(items.first[table], items.first[table + 1]):
        worth = items.value[item]
        for r in range(items.use.shape[1]):
            worth -= prices[row, r] * items.use[item, r]
        if worth > top:
            top, chosen = worth, item
    return top, chosen


@compiled
def _subgradient(items: _Items, prices: Floats, slack: Floats, score: Floats, total: float, rounds: int) -> None:
    """Minimise  sum(price) + sum over tables of max(0, value - price . use)  into prices[1] and `score`; prices[0] moves."""
    tables, resources = len(items.first) - 1, items.use.shape[1]
    least, step = np.inf, 0.5 * total
    for _ in range(rounds):
        bound = 0.0
        for r in range(resources):
            slack[r] = 1.0
            bound += prices[0, r]
        for t in range(tables):
            top, chosen = _best_item(items, prices, 0, t)
            bound += top
            if chosen >= 0:
                for r in range(resources):
                    slack[r] -= items.use[chosen, r]
        norm = 1e-12
        for r in range(resources):
            norm += slack[r] * slack[r]
            if bound < least:
                prices[1, r] = prices[0, r]
        least = min(least, bound)
        for r in range(resources):
            prices[0, r] = max(0.0, prices[0, r] - step * slack[r] / np.sqrt(norm))
        step *= 0.955
    for t in range(tables):
        score[t] = _best_item(items, prices, 1, t)[0]


@compiled
def _with(items: _Items, item: int, level: int, path: _Path) -> bool:
    """Adds an item (-1: nothing) to what is used at `level`, for the next level; whether it fits."""
    fits, total = True, 0.0
    for r in range(items.use.shape[1]):
        path.used[level + 1, r] = path.used[level, r] + (items.use[item, r] if item >= 0 else 0.0)
        fits = fits and path.used[level + 1, r] <= 1.0 + SAME_SUM
    for k in range(items.time.shape[1]):
        path.spent[level + 1, k] = path.spent[level, k] + (items.time[item, k] if item >= 0 else 0.0)
        total += max(items.lower[k], path.spent[level + 1, k])
    return fits and total <= items.limit


@compiled
def _spare_worth(multiplier: Floats, used: Floats, level: int) -> float:
    """What the resources left at `level` are worth at most."""
    worth = 0.0
    for r in range(len(multiplier)):
        worth += multiplier[r] * (1.0 - used[level, r])
    return worth


@compiled
def _search(items: _Items, bounds: _Bounds, path: _Path, threshold: float, most_steps: int) -> float:
    """The most that a pattern above `threshold` is worth, its items in `path.best`; `threshold` where there is none.

    Level j decides on table order[j]: its items in turn, then none.
    """
    first, order = items.first, bounds.order
    top, level = threshold, 0
    path.at[0] = first[order[0]]
    while level >= 0:
        if level == len(order):
            if path.worth[level] > top:
                top = path.worth[level]
                for t in range(len(order)):
                    path.best[t] = path.chosen[t]
            level -= 1
            continue
        table, item = order[level], path.at[level]
        if item > first[table + 1]:
            level -= 1
            continue
        path.at[level] += 1
        path.steps[0] += 1
        if path.steps[0] >= most_steps:
            path.steps[1] = 1
            return top
        path.chosen[table] = item if item < first[table + 1] else -1
        path.worth[level + 1] = path.worth[level] + (items.value[item] if path.chosen[table] >= 0 else 0.0)
        fits = _with(items, path.chosen[table], level, path)
        fits = fits and path.worth[level + 1] + bounds.suffix[level + 1] + _spare_worth(bounds.multiplier, path.used, level + 1) > top
        if fits and (len(bounds.grid.worth) == 0 or path.worth[level + 1] + _left(bounds.grid, path.used, level + 1) > top):
            level += 1
            if level < len(order):
                path.at[level] = first[order[level]]
    return top
