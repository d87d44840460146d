"""Access distributions against exact sums over single rows and against simulated lookups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from emplace.placement.access import Access, AccessDistribution, access_distribution

_ACCESS: TypeAdapter[Any] = TypeAdapter(Access)
SPELLINGS: list[Any] = ["uniform", {"zipf": 0.6}, {"zipf": 1.0}, {"zipf": 1.05}, {"zipf": 3}, {"icdf": [[0.1, 0.7], [0.3, 0.9]]}]


def of(spelling: Any, rows: int) -> AccessDistribution:
    return access_distribution(_ACCESS.validate_python(spelling), rows)


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.05, 2.0])
@pytest.mark.parametrize("rows", [1, 2, 64, 65, 100, 5_000])
def test_zipf_bins_against_exact_sums(alpha: float, rows: int) -> None:
    exact = np.arange(1, rows + 1, dtype=float) ** -alpha
    exact /= exact.sum()
    binned = of({"zipf": alpha}, rows)
    assert binned.rows.sum() == rows
    for lookups in (1, 10, 1_000, 100_000):
        assert binned.unique_rows(lookups) == pytest.approx(-np.expm1(lookups * np.log1p(-np.minimum(exact, 1 - 1e-15))).sum(), rel=2e-3)
    for share in (0.1, 0.5, 0.9):
        kept = round(share * rows)
        assert binned.hit_rate(kept / rows) == pytest.approx(exact[:kept].sum(), rel=2e-3, abs=1e-9)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_unique_rows_and_hits_agree_with_simulation(spelling: Any) -> None:
    rows, lookups = 2_000, 3_000
    spread = of(spelling, rows)
    rng = np.random.default_rng(5)
    batches = [spread.sample(rng, lookups) for _ in range(200)]
    assert spread.unique_rows(lookups) == pytest.approx(np.mean([len(np.unique(batch)) for batch in batches]), rel=0.02)
    assert spread.hit_rate(0.2) == pytest.approx(np.mean(np.concatenate(batches) < 0.2 * rows), abs=0.005)
    assert min(batch.min() for batch in batches) >= 0
    assert max(batch.max() for batch in batches) < rows


@given(spelling=st.sampled_from(SPELLINGS), rows=st.integers(1, 10**9), lookups=st.integers(0, 10**9))
@settings(max_examples=200)
def test_unique_rows_are_bounded_by_rows_and_lookups(spelling: Any, rows: int, lookups: int) -> None:
    unique = float(of(spelling, rows).unique_rows(lookups))
    assert 0 <= unique <= min(rows, lookups) * (1 + 1e-9)
    assert unique <= float(of(spelling, rows).unique_rows(lookups + 1)) + 1e-6


@given(spelling=st.sampled_from(SPELLINGS), rows=st.integers(1, 10**9), shares=st.lists(st.floats(0, 1), min_size=2, max_size=2))
@settings(max_examples=100)
def test_hit_rate_rises_from_zero_to_one_and_favours_the_cache(spelling: Any, rows: int, shares: list[float]) -> None:
    spread, (low, high) = of(spelling, rows), sorted(shares)
    assert spread.hit_rate(0.0) == 0
    assert spread.hit_rate(1.0) == pytest.approx(1)
    assert spread.hit_rate(low) <= spread.hit_rate(high) + 1e-12
    assert spread.hit_rate(low) >= low - 1e-9


def test_icdf_points_are_met() -> None:
    spread = of({"icdf": [[0.01, 0.5], [0.2, 0.95]]}, 10_000)
    np.testing.assert_allclose(spread.hit_rate([0.005, 0.01, 0.2]), [0.25, 0.5, 0.95])


@pytest.mark.parametrize(
    "spelling",
    [{"icdf": [[0.5, 0.2]]}, {"icdf": [[0.2, 0.5], [0.1, 0.6]]}, {"icdf": []}, {"zipf": 0}, {"zipf": True}, "zipf", {}, 3, {"uniform": 1}],
)
def test_impossible_access_is_refused(spelling: Any) -> None:
    with pytest.raises(ValidationError):
        _ACCESS.validate_python(spelling)
