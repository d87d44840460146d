"""From timed points to coefficients: non-negative least squares, weighted for relative error.

Each cost is linear in its coefficients, so a point is a row of quantities and a time. The mean absolute relative error is
minimised by iteratively reweighted least squares, which a few disturbed points can't bend. Errors are cross-validated:
each point is predicted by a fit that did not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from placement.cost_model import LookupCost, Regime, Residual, repeated_rows, touched_pages
from profiler.points import TableCounts

Array = NDArray[np.float64]

_FOLDS = 5
_REWEIGHTINGS = 12
_FEWEST_IN_REGIME = 5
"""Fewer points say little of a regime."""
_SMALLEST_ERROR = 0.02
"""Relative errors below this count alike: the clock does not resolve them."""
_TERMS = (
    "fixed_us",
    "per_lookup_us",
    "per_lookup_byte_us",
    "per_unique_row_us",
    "per_unique_byte_us",
    "per_repeated_row_us",
    "per_bag_us",
    "per_bag_byte_us",
    "per_overflow_byte_us",
    "per_page_us",
    "per_row_bit_us",
)
_CACHE_SIZES = tuple(int(size) for size in 2.0 ** np.arange(16, 31))


@dataclass(frozen=True)
class LookupPoints:
    """Measured groups of one kernel in one direction: what each table of each group was asked, and microseconds [points]."""

    groups: Sequence[tuple[TableCounts, ...]]
    times_us: Array
    with_gradient: bool = False
    """The direction writes a gradient as large as the weights (backward of the `dense` kernel)."""


@dataclass(frozen=True)
class LookupFit:
    """`group_us` is paid once per group of tables, not per table: a step pays it with its overhead. `per_weight_byte_us`
    is for the gradient of a replicated table, whose cost CollectiveCost all_reduce holds."""

    cost: LookupCost
    group_us: float
    per_weight_byte_us: float

    def predict(self, points: LookupPoints) -> Array:
        return np.array([self._group(tables, points.with_gradient) for tables in points.groups])

    def fixed_us(self, points: LookupPoints) -> Array:
        """[points] what a group of so many tables takes, however little they are asked."""
        return np.array([self.group_us + len(tables) * self.cost.fixed_us for tables in points.groups])

    def _group(self, tables: tuple[TableCounts, ...], with_gradient: bool) -> float:
        lookups, unique, row_bytes, bags, bag_bytes, rows = _counts(tables)
        gradient = self.per_weight_byte_us * (rows * row_bytes).sum() if with_gradient else 0.0
        return float(self.group_us + gradient + self.cost.time_us(lookups, unique, row_bytes, bags, bag_bytes, rows).sum())


def fit_lookup(points: LookupPoints) -> LookupFit:
    """The coefficients of placement.cost_model.LookupCost; `cache_bytes` is the power of two with the smallest error."""
    return min(
        (_fit_lookup(points, size) for size in _CACHE_SIZES),
        key=lambda fit: float(relative_errors(fit.predict(points), points.times_us).mean()),
    )


def _fit_lookup(points: LookupPoints, cache_bytes: int) -> LookupFit:
    quantities = np.array([_quantities(tables, cache_bytes, points) for tables in points.groups])
    *coefficients, group, weight = fit_nonnegative(quantities, points.times_us).tolist()
    cost = LookupCost(**dict(zip(_TERMS, coefficients, strict=True)), cache_bytes=cache_bytes)
    return LookupFit(cost, group, weight)


def _quantities(tables: tuple[TableCounts, ...], cache_bytes: int, points: LookupPoints) -> Array:
    """One row of the regression: what each of `_TERMS` multiplies, summed over the group's tables, the group, its gradient's bytes."""
    lookups, unique, row_bytes, bags, bag_bytes, rows = _counts(tables)
    miss = np.maximum(0.0, 1.0 - cache_bytes / np.maximum(unique * row_bytes, 1.0))
    terms = [
        np.ones(len(tables)),
        lookups,
        lookups * row_bytes,
        unique,
        unique * row_bytes,
        repeated_rows(lookups, unique),
        bags,
        bags * bag_bytes,
        lookups * row_bytes * miss,
        touched_pages(unique, row_bytes, rows),
        lookups * np.log2(1.0 + rows),
    ]
    return np.append([term.sum() for term in terms], [1.0, (rows * row_bytes).sum() * points.with_gradient])


def _counts(tables: tuple[TableCounts, ...]) -> Array:
    """[6, tables]: lookups, unique rows, row bytes, bags, bag bytes, rows."""
    return np.array([(t.lookups, t.unique_rows, t.row_bytes, t.bags, t.bag_bytes, t.rows) for t in tables], dtype=np.float64).T


def fit_nonnegative(quantities: Array, times_us: Array, known_us: Array | float = 0.0, weights: Array | float = 1.0) -> Array:
    """Coefficients c >= 0 [columns] with small mean |known + quantities @ c - times| / times, each point times its weight.

    `quantities` is [points, columns]; `known_us` is the part of a point's time that has no coefficient here.
    """
    relative = quantities / times_us[:, None]
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    matrix = relative / scale
    target = 1.0 - known_us / times_us
    given = np.ones(len(times_us)) * weights
    effective = given
    for _ in range(_REWEIGHTINGS):
        root = np.sqrt(effective)
        solution, _ = nnls(matrix * root[:, None], target * root, maxiter=50 * matrix.shape[1])
        effective = given / np.maximum(np.abs(matrix @ solution - target), _SMALLEST_ERROR)
    return np.asarray(solution / scale)


def held_out(points: int, seed: int, predict: Callable[[NDArray[np.intp], NDArray[np.intp]], Array]) -> Array:
    """Each point's prediction by a fit without it: `predict(seen, unseen)` fits on the first, returns times of the second."""
    order = np.random.default_rng(seed).permutation(points)
    predicted = np.empty(points)
    for unseen in np.array_split(order, min(_FOLDS, points)):
        predicted[unseen] = predict(np.setdiff1d(order, unseen), unseen)
    return predicted


def relative_errors(predicted: Array, times_us: Array) -> Array:
    """Absolute errors as shares of the measured times."""
    return np.asarray(np.abs(predicted - times_us) / times_us)


def residuals_by_regime(what: str, predicted: Array, times_us: Array, fixed_us: Array) -> list[Residual]:
    """Of all points, and then of either regime where there are enough of both; `fixed_us` is how much of each predicted time is
    fixed."""
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
