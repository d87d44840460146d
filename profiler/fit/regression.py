"""From timed points to coefficients: non-negative least squares, weighted for relative error.

Each cost is linear in its coefficients, so a point is a row of quantities and a time. The mean absolute relative error is
minimised by iteratively reweighted least squares, which a few disturbed points can't bend. Errors are cross-validated:
each point is predicted by a fit that did not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.optimize import nnls

from emplace.placement.cost_model import LookupCost, Regime, Residual, cache_lines, row_digits, touched_pages
from emplace.profiler.design.points import TableCounts

Array = NDArray[np.float64]

_FOLDS = 5
_REWEIGHTINGS = 12
_FEWEST_IN_REGIME = 5
"""Fewer points say little of a regime."""
_SMALLEST_ERROR = 0.02
"""Relative errors below this count alike: the clock does not resolve them."""
_FAR_OFF = 2.0
"""A point that is further off than so many times counts as if it were so far off."""
_TERMS = (
    "fixed_us",
    "per_lookup_us",
    "per_lookup_byte_us",
    "per_row_digit_us",
    "per_unique_row_us",
    "per_unique_line_us",
    "per_overflow_byte_us",
    "per_bag_us",
    "per_bag_byte_us",
    "per_uneven_bag_us",
    "per_page_us",
)
_OF_CORES = ("per_uneven_bag_us", "per_page_us")
"""What costs a core time and a GPU none: branches that it can't foresee, and pages that are not in its tables of addresses."""
_HIDDEN_US = 500.0
"""Launching takes a process so long that a GPU's times below this don't show in a step: their errors count as shares of this."""
_OF_A_ROWS_UPDATE = ("per_unique_row_us", "per_unique_line_us", "per_page_us")
"""What optimizers and data types differ in: all read the same ids, sort them and sum the same gradients."""
_CACHE_SIZES = tuple(int(size) for size in 2.0 ** np.arange(16, 31))


@dataclass(frozen=True)
class LookupPoints:
    """Measured groups of tables, of one kernel in one direction."""

    groups: Sequence[tuple[TableCounts, ...]]
    """What each table of each group was asked for."""
    times_us: Array
    """[points]"""
    slowness: Array
    """[points] how many times as long as usual what slows down most took meanwhile."""
    on_cuda: bool = False
    is_backward: bool = False
    with_gradient: bool = False
    """The direction writes a gradient as large as the weights (backward of the `dense` kernel)."""

    @cached_property
    def counts(self) -> Array:
        """[7, tables of all groups] lookups, unique rows, row bytes, bags, uneven bags, bag bytes, rows."""
        each = [
            (t.lookups, t.unique_rows, t.row_bytes, t.bags, t.uneven_bags, t.bag_bytes, t.rows) for tables in self.groups for t in tables
        ]
        return np.array(each, dtype=np.float64).T


@dataclass(frozen=True)
class LookupFit:
    """Fitted coefficients [columns]: one for each of _TERMS, one for a group of tables, one for a byte of its gradient."""

    steady: Array
    """Microseconds that pass however slow the machine is."""
    slowing: Array
    """Microseconds that grow as the machine slows down."""
    cache_bytes: int

    @property
    def cost(self) -> LookupCost:
        """The cost at the machine's usual speed.

        What a group takes is in a step's overhead, and what the gradient takes in the cost of an all-reduce.
        """
        usual = (self.steady + self.slowing)[: len(_TERMS)].tolist()
        return LookupCost(**dict(zip(_TERMS, usual, strict=True)), cache_bytes=self.cache_bytes)

    def predict(self, points: LookupPoints) -> Array:
        """[points] microseconds, at the speed that the machine had."""
        quantities = _quantities(points, self.cache_bytes)
        return np.asarray(quantities @ self.steady + points.slowness * (quantities @ self.slowing))

    def fixed_us(self, points: LookupPoints) -> Array:
        """[points] microseconds that a group of so many tables takes however little they are asked for."""
        tables, group = _TERMS.index("fixed_us"), len(_TERMS)
        usual, counted = self.steady + self.slowing, [len(of_group) for of_group in points.groups]
        return np.asarray(usual[group] + np.array(counted) * usual[tables])


def fit_lookup(points: LookupPoints) -> LookupFit:
    """The fit of one kernel in one direction; of the powers of two, `cache_bytes` is the one with the smallest error."""
    fits = (fit_variants([points], size)[0] for size in _CACHE_SIZES)
    return min(fits, key=lambda fit: float(relative_errors(fit.predict(points), points.times_us).mean()))


def fit_variants(variants: Sequence[LookupPoints], cache_bytes: int) -> list[LookupFit]:
    """The fit of each of a kernel's variants. Their coefficients are alike but for what a row's update takes."""
    own = np.isin((*_TERMS, "group", "gradient"), _OF_A_ROWS_UPDATE)
    each = [_quantities(points, cache_bytes) for points in variants]
    quantities = np.hstack([np.vstack([one[:, ~own] for one in each]), block_diag(*(one[:, own] for one in each))])
    slowness = np.concatenate([points.slowness for points in variants])[:, None]
    times = np.concatenate([points.times_us for points in variants])
    weights = np.array([seen_share(time_us) for time_us in times]) if variants[0].on_cuda else 1.0
    steady, slowing = np.split(fit_nonnegative(np.hstack([quantities, slowness * quantities]), times, weights=weights), 2)
    parts = zip(_of_variants(steady, own, len(variants)), _of_variants(slowing, own, len(variants)), strict=True)
    return [LookupFit(*part, cache_bytes) for part in parts]


def seen_share(time_us: float) -> float:
    """How much of the relative error of a GPU's time shows in a step."""
    return min(time_us / _HIDDEN_US, 1.0)


def _of_variants(found: Array, own: NDArray[np.bool_], count: int) -> Array:
    """[variants, columns] coefficients, from those that all share followed by each one's own."""
    shared, owned = np.split(found, [int((~own).sum())])
    coefficients = np.empty((count, len(own)))
    coefficients[:, ~own], coefficients[:, own] = shared, owned.reshape(count, -1)
    return coefficients


def _quantities(points: LookupPoints, cache_bytes: int) -> Array:
    """[points, columns] what each coefficient multiplies: _TERMS summed over the group's tables, 1 for the group, its gradient's bytes."""
    lookups, unique, row_bytes, bags, uneven_bags, bag_bytes, rows = points.counts
    miss = np.maximum(0.0, 1.0 - cache_bytes / np.maximum(unique * row_bytes, 1.0))
    terms = [
        np.ones_like(lookups),
        lookups,
        lookups * row_bytes,
        lookups * row_digits(rows),
        unique * points.is_backward,
        unique * cache_lines(row_bytes),
        lookups * row_bytes * miss,
        bags,
        bags * bag_bytes,
        uneven_bags,
        touched_pages(unique, row_bytes, rows),
        rows * row_bytes * points.with_gradient,
    ]
    if points.on_cuda:
        for name in _OF_CORES:
            terms[_TERMS.index(name)] = np.zeros_like(lookups)
    first = np.cumsum([0, *map(len, points.groups[:-1])])
    summed = np.add.reduceat(terms, first, axis=1)
    return np.vstack([summed[:-1], np.ones(len(first)), summed[-1:]]).T


def fit_nonnegative(
    quantities: Array, times_us: Array, known_us: Array | float = 0.0, weights: Array | float = 1.0, *, of_predicted: bool = False
) -> Array:
    """Coefficients c >= 0 [columns] with small mean |known + quantities @ c - times| / times, each point times its weight.

    `quantities` is [points, columns]; `known_us` is the part of a point's time that has no coefficient here. `of_predicted` makes errors
    shares of known + quantities @ c, for times that vary by themselves: as shares of those, short ones would count for more than long
    ones, and too little would be predicted.
    """
    scale = np.maximum(np.abs(quantities / times_us[:, None]).max(axis=0), 1e-300)
    matrix, target = quantities / scale, times_us - known_us
    given = np.ones(len(times_us)) * weights
    effective, expected_us = given, times_us
    for _ in range(_REWEIGHTINGS):
        root = np.sqrt(effective) / expected_us
        solution, _ = nnls(matrix * root[:, None], target * root, maxiter=50 * matrix.shape[1])
        too_long_us = matrix @ solution - target
        if of_predicted:
            expected_us = np.clip(times_us + too_long_us, times_us / _FAR_OFF, times_us * _FAR_OFF)
        effective = given / np.maximum(np.abs(too_long_us) / expected_us, _SMALLEST_ERROR)
    return np.asarray(solution / scale)


def held_out(points: int, seed: int, predict: Callable[[NDArray[np.intp], NDArray[np.intp]], Array]) -> Array:
    """[points] each point's time as predicted by a fit without it: `predict(seen, unseen)` fits the first, returns times of the second."""
    order = np.random.default_rng(seed).permutation(points)
    predicted = np.empty(points)
    for unseen in np.array_split(order, min(_FOLDS, points)):
        predicted[unseen] = predict(np.setdiff1d(order, unseen), unseen)
    return predicted


def relative_errors(predicted: Array, times_us: Array) -> Array:
    """Absolute errors as shares of the measured times."""
    return np.asarray(np.abs(predicted - times_us) / times_us)


def residuals_by_regime(what: str, predicted: Array, times_us: Array, fixed_us: Array) -> list[Residual]:
    """The errors of all points, followed by those of each regime where both have enough points.

    `fixed_us` is the part of each predicted time that does not grow with what is asked.
    """
    of_overhead = fixed_us > predicted / 2
    found = [residual(what, predicted, times_us)]
    if min(of_overhead.sum(), (~of_overhead).sum()) >= _FEWEST_IN_REGIME:
        regimes = ((Regime.OVERHEAD, of_overhead), (Regime.WORK, ~of_overhead))
        found += [residual(what, predicted[these], times_us[these], regime) for regime, these in regimes]
    return found


def residual(what: str, predicted: Array, times_us: Array, regime: Regime | None = None) -> Residual:
    """Summary of the errors of predictions for points that their fit did not see."""
    errors = relative_errors(predicted, times_us)
    mape, median, worst = float(errors.mean()), float(np.median(errors)), float(errors.max())
    return Residual(what=what, regime=regime, points=len(errors), mape=mape, median=median, worst=worst)
