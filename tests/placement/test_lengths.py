"""Every spelling of feature lengths against exact sums over whole lengths, closed forms and its own samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from emplace.placement.lengths import MAX_LENGTH, FeatureLength, LengthDistribution, length_distribution

_LENGTH: TypeAdapter[Any] = TypeAdapter(FeatureLength)


def of(spelling: dict[str, Any], truncate: int | None = None) -> LengthDistribution:
    return length_distribution(_LENGTH.validate_python(spelling), truncate)


SPELLINGS: list[dict[str, Any]] = [
    {"fixed": 0},
    {"fixed": 7},
    {"poisson": 0.01},
    {"poisson": 3.5},
    {"poisson": 900.0},
    {"poisson": 400_000.0},
    {"lognormal": {"mean": 30, "sigma": 1.1}},
    {"lognormal": {"mean": 1000, "sigma": 0.01}},
    {"lognormal": {"mean": 50_000, "sigma": 2.0}},
    {"power_law": {"mean": 28, "alpha": 1.2, "max": 1000}},
    {"power_law": {"mean": 2.5, "alpha": 1.0, "max": 40}},
    {"power_law": {"mean": 10_000, "alpha": 0.7, "max": 1_000_000}},
    {"quantiles": {"0.5": 2, "0.99": 40}},
    {"quantiles": {"0.5": 5, "0.9": 5, "1": 100_000}},
    {"histogram": {"lengths": [0, 1, 2], "weights": [0.5, 0.3, 0.2]}},
    {"histogram": {"lengths": [900_000, 3], "weights": [0.25, 0.75]}},
]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
@pytest.mark.parametrize("truncate", [None, 1, 3, 50])
def test_moments_and_quantiles_agree_with_samples(spelling: dict[str, Any], truncate: int | None) -> None:
    lengths = of(spelling, truncate)
    sample = lengths.sample(np.random.default_rng(7), 200_000)
    assert sample.min() >= 0
    assert sample.max() <= lengths.longest
    deviation = np.sqrt(lengths.variance)
    assert sample.mean() == pytest.approx(lengths.mean, abs=5 * deviation / np.sqrt(len(sample)) + 1e-9)
    assert sample.std() == pytest.approx(deviation, rel=0.15, abs=0.01)
    for q in (0.1, 0.5, 0.9):
        at = lengths.quantile(q)
        assert (sample <= at).mean() >= q - 0.01
        assert (sample < at).mean() <= q + 0.01


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sigma", [5e-324, 1e-200, 1e-3])
def test_a_lognormal_of_next_to_no_shape_is_of_one_length(sigma: float) -> None:
    lengths = of({"lognormal": {"mean": 30, "sigma": sigma}})
    assert lengths.mean == pytest.approx(30, rel=1e-12)


@pytest.mark.parametrize("truncate", [None, 2, 40, 5_000])
def test_lognormal_against_the_rounded_law(truncate: int | None) -> None:
    mean, sigma = 30.0, 1.1
    law = stats.lognorm(s=sigma, scale=mean / np.exp(sigma**2 / 2))
    pmf = np.diff(law.cdf(np.arange(200_000) + 0.5), prepend=0.0)
    values = np.minimum(np.arange(200_000), truncate or MAX_LENGTH)
    exact_mean = values @ pmf
    exact = of({"lognormal": {"mean": mean, "sigma": sigma}}, truncate)
    assert exact.mean == pytest.approx(exact_mean, rel=1e-4)
    assert exact.variance == pytest.approx((values - exact_mean) ** 2 @ pmf, rel=1e-3)


@given(st.floats(0.01, 1e5))
@settings(max_examples=50)
def test_poisson_has_mean_equal_to_variance(mean: float) -> None:
    lengths = of({"poisson": mean})
    assert lengths.mean == pytest.approx(mean, rel=1e-6)
    assert lengths.variance == pytest.approx(mean, rel=1e-3)
    assert abs(lengths.quantile(0.9) - stats.poisson(mean).ppf(0.9)) <= max(1, 0.001 * mean)


@given(st.floats(1.01, 400), st.floats(0.2, 6), st.integers(2_000, 100_000))
@settings(max_examples=50)
def test_power_law_has_the_asked_mean_and_falls(mean: float, alpha: float, longest: int) -> None:
    try:
        lengths = of({"power_law": {"mean": mean, "alpha": alpha, "max": longest}})
    except ValidationError:
        assume(False)
    assert lengths.mean == pytest.approx(mean, rel=1e-9)
    assert lengths.longest == longest
    density = lengths.mass / (lengths.ends - lengths.starts)
    assert (np.diff(density) <= 1e-9 * density[:-1]).all()


def test_power_law_against_the_exact_sum() -> None:
    lengths, whole = of({"power_law": {"mean": 100, "alpha": 2.5, "max": 5_000}}), np.arange(5_001)
    from scipy import optimize

    def pmf(shift: float) -> Any:
        weights = (whole + shift) ** -2.5
        return weights / weights.sum()

    exact = pmf(optimize.brentq(lambda shift: whole @ pmf(shift) - 100, 1e-3, 1e6))
    assert lengths.variance == pytest.approx((whole - 100.0) ** 2 @ exact, rel=1e-3)
    assert lengths.quantile(0.99) == pytest.approx(int(np.searchsorted(np.cumsum(exact), 0.99)), abs=3)


def test_quantiles_are_met_at_the_stated_points() -> None:
    lengths = of({"quantiles": {"0.5": 2, "0.99": 40}})
    assert lengths.quantile(0.5) == 2
    assert lengths.quantile(0.99) == 40
    assert lengths.longest == 40


def test_histogram_is_exact() -> None:
    lengths = of({"histogram": {"lengths": [2, 0, 1], "weights": [0.2, 0.5, 0.3]}})
    assert (lengths.mean, lengths.variance) == pytest.approx((0.7, 0.61))
    assert [lengths.quantile(q) for q in (0.2, 0.5, 0.500001, 0.8, 0.81, 1.0)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
@given(truncate=st.integers(1, 2_000))
@settings(max_examples=10)
def test_truncation_only_takes_away(spelling: dict[str, Any], truncate: int) -> None:
    whole, cut = of(spelling), of(spelling, truncate)
    assert cut.longest == min(whole.longest, truncate)
    assert cut.mean <= whole.mean + 1e-12
    assert cut.mass.sum() == pytest.approx(1)
    assert cut.quantile(0.5) == min(whole.quantile(0.5), truncate)


def test_the_total_of_a_batch_is_nearly_normal_and_bounded() -> None:
    lengths = of({"lognormal": {"mean": 30, "sigma": 1.1}})
    rng = np.random.default_rng(3)
    totals = lengths.sample(rng, 2_000 * 1_000).reshape(2_000, 1_000).sum(axis=1)
    assert lengths.total_quantile(0.5, 1_000) == pytest.approx(np.quantile(totals, 0.5), rel=0.01)
    assert lengths.total_quantile(0.95, 1_000) == pytest.approx(np.quantile(totals, 0.95), rel=0.01)
    assert of({"fixed": 4}).total_quantile(0.999, 10) == 40
    assert of({"poisson": 3.0}, 3).total_quantile(0.999999, 1) <= 3
