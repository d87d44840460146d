"""What distributions of lengths need of special functions and roots: scipy has them all, and takes longer to import than a check takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_POISSON_REACH = 12
"""Standard deviations from the mean, and whole numbers more, beyond which a Poisson variable lies with less than rounding's probability."""
_MOST_STEPS = 100
_ROOT_TOLERANCE, _ROOT_ROUNDING = 2e-12, 4 * float(np.finfo(np.float64).eps)
"""How near a root is found: absolutely, and as a share of it."""


def normal_quantile(q: float) -> float:
    """The value that a standard normal variable does not exceed with probability `q`."""
    return NormalDist().inv_cdf(q)


def normal_cdf(x: Floats) -> Floats:
    """The probability that a standard normal variable does not exceed each value."""
    return np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in np.atleast_1d(x).tolist()])


def poisson_cdf(mean: float) -> tuple[int, Floats]:
    """(first, cdf): with probability `cdf[i]` a Poisson variable does not exceed `first + i`; beyond both ends lies less than rounding.

    Each probability follows from its neighbour's, outward from the most likely number: no power and no factorial loses digits.
    """
    mode = int(mean)
    reach = int(_POISSON_REACH * math.sqrt(mean)) + _POISSON_REACH
    up = np.cumprod(mean / np.arange(mode + 1, mode + 2 * reach + 1))
    down = np.cumprod(np.arange(mode, max(mode - reach, 0), -1) / mean)
    mass = np.concatenate([down[::-1], [1.0], up])
    return mode - len(down), np.cumsum(mass) / mass.sum()


def exprel(x: Floats) -> Floats:
    """(exp(x) - 1) / x, and its limit 1 at 0."""
    is_zero = x == 0
    return np.where(is_zero, 1.0, np.expm1(x) / np.where(is_zero, 1.0, x))


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a continuous function of opposite signs at `low` and `high` is 0, by Brent's method (Brent 1973, chapter 4).

    Each step goes where the last points' line or parabola meets 0, or where that is too slow to the middle of what brackets the root.
    Raises ArithmeticError where that leads nowhere, as with a function that is flat around its root.
    """
    before, here, f_before, f_here = low, high, function(low), function(high)
    if f_before == 0:
        return before
    across, f_across = before, f_before
    step = last_step = here - before
    for _ in range(_MOST_STEPS):
        if (f_before > 0) != (f_here > 0):
            across, f_across = before, f_before
            last_step = step = here - before
        if abs(f_across) < abs(f_here):
            before, here, across = here, across, here
            f_before, f_here, f_across = f_here, f_across, f_here
        near, to_middle = (_ROOT_TOLERANCE + _ROOT_ROUNDING * abs(here)) / 2, (across - here) / 2
        if f_here == 0 or abs(to_middle) < near:
            return here
        bends = abs(last_step) > near and abs(f_here) < abs(f_before)
        tried = _step((before, f_before), (here, f_here), (across, f_across)) if bends else math.inf
        is_good = 2 * abs(tried) < min(abs(last_step), 3 * abs(to_middle) - near)
        last_step, step = (step, tried) if is_good else (to_middle, to_middle)
        before, f_before = here, f_here
        here += step if abs(step) > near else math.copysign(near, to_middle)
        f_here = function(here)
    raise ArithmeticError(f"no root was found in {_MOST_STEPS} steps between {low:g} and {high:g}")


_Point = tuple[float, float]


def _step(before: _Point, here: _Point, across: _Point) -> float:
    """From `here` to where the line through two points, or the inverse parabola through three, meets 0."""
    (x_before, f_before), (x, f), (x_across, f_across) = before, here, across
    if x_before == x_across:
        return -f * (x - x_before) / (f - f_before)
    slope_before, slope_across = (f_before - f) / (x_before - x), (f_across - f) / (x_across - x)
    return -f * (f_across * slope_across - f_before * slope_before) / (slope_across * slope_before * (f_across - f_before))
