"""Special functions and roots against those of scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from emplace.placement.special_functions import exprel, normal_quantile, root


def test_exprel_is_that_of_scipy_from_far_below_to_far_above_zero() -> None:
    x = np.concatenate([np.linspace(-600, 600, 2001), np.array([0.0, 1e-300, -1e-17, 1e-9, -1e-5])])
    np.testing.assert_allclose(exprel(x), special.exprel(x), rtol=1e-15)


@pytest.mark.parametrize("q", [1e-9, 0.01, 0.5, 0.95, 0.999999])
def test_quantiles_of_the_normal_law(q: float) -> None:
    assert normal_quantile(q) == pytest.approx(special.ndtri(q), rel=1e-14, abs=1e-16)


@given(st.floats(-5, 5), st.floats(0.01, 5), st.floats(0.01, 5), st.integers(0, 3))
def test_roots_take_the_steps_of_scipy(zero: float, below: float, above: float, kind: int) -> None:
    functions = (
        lambda x: x - zero,
        lambda x: (x - zero) + (x - zero) ** 3,
        lambda x: math.expm1(x - zero),
        lambda x: math.atan(10 * (x - zero)),
    )
    looks: list[list[float]] = [[], []]

    def seen(x: float, by: int) -> float:
        looks[by].append(x)
        return functions[kind](x)

    mine = root(lambda x: seen(x, 0), zero - below, zero + above)
    theirs = optimize.brentq(lambda x: seen(x, 1), zero - below, zero + above)
    assert (mine, looks[0]) == (theirs, looks[1])


def test_an_end_that_is_the_root_is_it() -> None:
    assert root(lambda x: x - 1, 1.0, 2.0) == 1.0
    assert root(lambda x: x - 2, 1.0, 2.0) == 2.0
