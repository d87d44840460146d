"""The pricing problem: the most violated pattern, what one device could hold that is worth most at given prices.

A multiple-choice knapsack with several resources, by depth-first search: with one stage under a Lagrangian bound and, where that prunes
too little, under one by dynamic programming over two of the resources; with several under a Lagrangian bound found anew for every part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from emplace.solver.budget import GRID_CELLS_PER_STEP, INSIDE_CELL, SAME_SUM
from emplace.solver.model.problem import Floats, Ints
from emplace.solver.native import fill_grid, search_patterns, search_repricing, subgradient
from emplace.solver.presolve.granularity import FINEST, common_divisor

_SUBGRADIENT_STEPS = 120
"""Improvements of the Lagrangian prices before a search."""
QUICK_STEPS = 50_000
"""Steps that the search may take without a grid: filling one takes longer than so many."""
CELLS = 128
"""Cells of a grid along each resource."""
FEW_STEPS, FEW_CELLS = 1_000_000, 64
"""Cells where at most so many steps are asked for."""
ENOUGH_STEPS, MOST_MET = 2_000_000, 8
"""With several stages: steps after which a search ends once it has met a pattern, and how many patterns of those met are kept, the last."""


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
class BestPatterns:
    """The most valuable pattern that was seen, and others that were met on the way."""

    patterns: tuple[Ints, ...]
    """The items of each, the most valuable first; none where no pattern is worth more than the threshold."""
    value: float
    """What the first is worth; the threshold where there is none."""
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
    capacity: float
    """What there is of either resource, with more than rounding adds: no cell is missed."""


class PricedItems(NamedTuple):
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
    """The most time, as in Knapsack, with what rounding adds."""
    capacity: float
    """What there is of each resource, likewise."""


class Bounds(NamedTuple):
    """What bounds the worth of the tables that are still to be decided, in the order of the search."""

    order: Ints
    """[T] the table of each level."""
    suffix: Floats
    """[T + 1] what the tables at a level and below add to the Lagrangian bound."""
    multiplier: Floats
    """[R]"""
    grid: Grid


class Path(NamedTuple):
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


class PatternsMet(NamedTuple):
    """Patterns worth more than all before, each in a row: the latest takes the place of the earliest once there is no other."""

    chosen: Ints
    """[MOST_MET, T] an item of each table, or -1."""
    counts: Ints
    """[3] how many were met, the steps taken, and whether they ran out."""


def most_violated(knapsack: Knapsack, value: Floats, threshold: float, most_steps: int) -> BestPatterns:
    """The pattern worth most by `value` [I], if worth more than `threshold`; after `most_steps` the best one seen."""
    multiplier, score = _multipliers(knapsack, value)
    left = _worth_while(knapsack, value, multiplier, score, threshold)
    if not len(left):
        return BestPatterns((), threshold, True, 1)
    table = np.repeat(np.arange(len(score)), np.diff(knapsack.first))[left]
    tables, first = np.unique(table, return_index=True)
    part = replace(knapsack, first=np.append(first, len(left)), use=knapsack.use[left], time=knapsack.time[left])
    if knapsack.time.shape[1] > 1:
        found = _repricing(part, value[left], multiplier, threshold, most_steps)
    else:
        found = _best_pattern(part, value[left], multiplier, score[tables], threshold, most_steps)
    return replace(found, patterns=tuple(left[items] for items in found.patterns))


def _worth_while(knapsack: Knapsack, value: Floats, multiplier: Floats, score: Floats, threshold: float) -> Ints:
    """The items that patterns worth more than the threshold may hold: by the Lagrangian bound with the item taken."""
    others = multiplier.sum() + score.sum() - np.repeat(score, np.diff(knapsack.first))
    return np.flatnonzero((others + value - knapsack.use @ multiplier > threshold - INSIDE_CELL) & (value > 0))


def _best_pattern(knapsack: Knapsack, value: Floats, multiplier: Floats, score: Floats, threshold: float, most_steps: int) -> BestPatterns:
    """Searches without a grid, and if that does not finish with one."""
    order = np.argsort(-score, kind="stable")
    suffix = np.append(np.cumsum(score[order][::-1])[::-1], 0.0)
    bounds = Bounds(order, suffix, multiplier, _no_grid())
    quick = _depth_first(knapsack, value, bounds, threshold, min(most_steps, QUICK_STEPS))
    if quick.finished or most_steps <= QUICK_STEPS:
        return quick
    grid, steps = _completions(knapsack, value, order, multiplier, CELLS if most_steps > FEW_STEPS else FEW_CELLS)
    slow = _depth_first(knapsack, value, bounds._replace(grid=grid), quick.value, most_steps)
    found = slow if slow.patterns else quick
    return replace(found, finished=slow.finished, steps=quick.steps + slow.steps + steps)


def _depth_first(knapsack: Knapsack, value: Floats, bounds: Bounds, threshold: float, most_steps: int) -> BestPatterns:
    """The best pattern above the threshold, deciding on one table after the other."""
    tables, resources = len(bounds.order), knapsack.use.shape[1]
    path = Path(
        used=np.zeros((tables + 1, resources)),
        spent=np.concatenate([knapsack.held[None, :], np.zeros((tables, len(knapsack.held)))]),
        worth=np.zeros(tables + 1),
        at=np.zeros(tables + 1, dtype=np.int64),
        chosen=np.full(tables, -1, dtype=np.int64),
        best=np.full(tables, -1, dtype=np.int64),
        steps=np.zeros(2, dtype=np.int64),
    )
    worth = search_patterns(_items_of(knapsack, value), bounds, path, threshold, most_steps)
    best = (path.best[path.best >= 0],) if worth > threshold else ()
    return BestPatterns(best, worth, bool(path.steps[1] == 0), int(path.steps[0]))


def _repricing(knapsack: Knapsack, value: Floats, multiplier: Floats, threshold: float, most_steps: int) -> BestPatterns:
    """The best patterns above the threshold, with prices of resources found anew for every part of the search."""
    met = PatternsMet(np.full((MOST_MET, len(knapsack.first) - 1), -1, dtype=np.int64), np.zeros(3, dtype=np.int64))
    usable = replace(knapsack, use=_of_usable(knapsack.use))
    worth = search_repricing(_items_of(usable, value), multiplier, knapsack.held, met, threshold, most_steps, ENOUGH_STEPS)
    number, steps, ran_out = met.counts.tolist()
    latest = [met.chosen[index % MOST_MET] for index in range(number - 1, max(number - MOST_MET, 0) - 1, -1)]
    return BestPatterns(tuple(row[row >= 0] for row in latest), worth, not ran_out, steps)


def _of_usable(use: Floats) -> Floats:
    """[I, R] uses as shares of what some of the items can fill: where what they use of a resource are multiples of a step, whole steps."""
    usable = np.ones(use.shape[1])
    for resource, each in enumerate(use.T):
        step = common_divisor(each, 1.0)
        if step > 0:
            rounding = len(each) * float(np.abs(each - step * np.round(each / step)).max())
            usable[resource] = min(np.floor((1.0 + rounding) / step + FINEST) * step + rounding, 1.0)
    return use / usable


def _no_grid() -> Grid:
    return Grid(np.zeros(2, dtype=np.int64), np.empty(0), np.empty((0, 0, 0)), 1.0 + INSIDE_CELL)


def _completions(knapsack: Knapsack, value: Floats, order: Ints, multiplier: Floats, along: int) -> tuple[Grid, int]:
    """For the two dearest resources, with what items use rounded down to whole cells; and how many steps that counts for."""
    resource = np.argsort(-multiplier, kind="stable")[[0, min(1, len(multiplier) - 1)]]
    cells = np.array([along, along if len(multiplier) > 1 else 0])
    price = multiplier.copy()
    price[resource] = 0.0
    cell = np.ascontiguousarray(np.floor(knapsack.use[:, resource] * cells), dtype=np.int64)
    worth = np.zeros((len(order) + 1, cells[0] + 1, cells[1] + 1))
    fill_grid(knapsack.first, cell, value - knapsack.use @ price, order, worth)
    return Grid(resource, price, worth, 1.0 + INSIDE_CELL), int(len(cell) * worth[0].size / GRID_CELLS_PER_STEP)


def _multipliers(knapsack: Knapsack, value: Floats) -> tuple[Floats, Floats]:
    """Prices [R] of the resources that make the Lagrangian bound small, and what each table adds to it at most [T]."""
    total = max(float(value.max(initial=0.0)), 1e-12)
    prices = np.full((2, knapsack.use.shape[1]), total)
    score = np.zeros(len(knapsack.first) - 1)
    subgradient(_items_of(knapsack, value), prices, np.zeros(knapsack.use.shape[1]), score, total, _SUBGRADIENT_STEPS)
    return prices[1].copy(), score


def _items_of(knapsack: Knapsack, value: Floats) -> PricedItems:
    return PricedItems(knapsack.first, knapsack.use, knapsack.time, value, knapsack.lower, knapsack.limit * (1 + SAME_SUM), 1.0 + SAME_SUM)
