"""The fit: known coefficients come back, none is negative, and errors are those of points it did not see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.cost_model import LookupCost, Regime
from emplace.profiler.design.points import TableCounts
from emplace.profiler.fit.regression import (
    LookupPoints,
    fit_lookup,
    fit_nonnegative,
    fit_variants,
    held_out,
    relative_errors,
    residual,
    residuals_by_regime,
)

TRUTH = LookupCost(
    fixed_us=12.0,
    per_lookup_us=0.004,
    per_lookup_byte_us=2e-5,
    per_unique_row_us=0.04,
    per_unique_line_us=0.005,
    per_overflow_byte_us=1e-4,
    per_bag_us=0.006,
    per_bag_byte_us=4e-5,
    per_uneven_bag_us=0.01,
    per_page_us=0.03,
    per_row_digit_us=0.004,
    cache_bytes=2**22,
)


def draw_groups(count: int, seed: int) -> list[tuple[TableCounts, ...]]:
    rng = np.random.default_rng(seed)

    def table() -> TableCounts:
        lookups = 10 ** rng.uniform(2, 6)
        columns = int(2 ** rng.integers(2, 9))
        unique_rows = max(1.0, lookups * 10 ** rng.uniform(-2, 0))
        bags = int(lookups / 10 ** rng.uniform(0, 2)) + 1
        return TableCounts(
            lookups=lookups,
            unique_rows=unique_rows,
            row_bytes=4 * columns,
            bags=bags,
            uneven_bags=int(rng.integers(2)) * bags,
            bag_bytes=4 * columns,
            rows=int(unique_rows * 10 ** rng.uniform(0, 2)),
        )

    return [tuple(table() for _ in range(rng.choice([1, 1, 2, 4]))) for _ in range(count)]


def points_of(
    cost: LookupCost, count: int, seed: int, *, group_us: float = 30.0, noise: float = 0.0, gradient_byte_us: float = 0.0
) -> LookupPoints:
    """On a machine as fast as usual."""
    groups = draw_groups(count, seed)
    times = np.array([group_us + sum(table_us(cost, table, gradient_byte_us) for table in tables) for tables in groups])
    times *= np.random.default_rng(seed + 1).lognormal(0, noise, count)
    return LookupPoints(groups, times, np.ones(count), is_backward=True, with_gradient=gradient_byte_us > 0)


def table_us(cost: LookupCost, table: TableCounts, gradient_byte_us: float = 0.0) -> float:
    asked = table.lookups, table.unique_rows, table.row_bytes, table.bags, table.uneven_bags, table.bag_bytes, table.rows
    return float(cost.time_us(*asked)) + table.rows * table.row_bytes * gradient_byte_us


def test_known_lookup_coefficients_come_back() -> None:
    points = points_of(TRUTH, 200, seed=0)
    found = fit_lookup(points)
    for key, value in TRUTH.model_dump().items():
        assert getattr(found.cost, key) == pytest.approx(value, rel=0.02), key
    of_tables = TRUTH.fixed_us * np.array([len(tables) for tables in points.groups])
    assert found.fixed_us(points) == pytest.approx(30.0 + of_tables, rel=0.02)


def test_what_slows_with_the_machine_is_told_from_what_does_not() -> None:
    """Lookups slow down with it, all else does not: the cost is that of the machine as it usually is, predictions are of then."""
    rng, lookups = np.random.default_rng(0), LookupCost(per_lookup_us=TRUTH.per_lookup_us)
    others = TRUTH.model_copy(update={"per_lookup_us": 0.0})
    usual = points_of(others, 200, seed=4)
    slowness = rng.uniform(0.7, 1.6, 200)
    slowed = points_of(lookups, 200, seed=4, group_us=0.0).times_us * slowness
    points = replace(usual, times_us=usual.times_us + slowed, slowness=slowness)
    found = fit_lookup(points)
    assert found.cost.per_lookup_us == pytest.approx(TRUTH.per_lookup_us, rel=0.02)
    assert found.cost.fixed_us == pytest.approx(TRUTH.fixed_us, rel=0.02)
    assert found.predict(points) == pytest.approx(points.times_us, rel=0.01)


def test_variants_differ_in_a_rows_update_and_share_all_else() -> None:
    """Thirty points each: too few for one alone."""
    dear = TRUTH.model_copy(update={"per_unique_row_us": 0.4, "per_unique_line_us": 0.03, "per_page_us": 0.2})
    variants = [points_of(cost, 30, seed=number, noise=0.03) for number, cost in enumerate((TRUTH, dear))]
    found = fit_variants(variants, TRUTH.cache_bytes)
    assert [fit.cost.per_unique_row_us for fit in found] == pytest.approx([0.04, 0.4], rel=0.3)
    assert [fit.cost.per_unique_line_us for fit in found] == pytest.approx([0.005, 0.03], rel=0.3)
    assert [fit.cost.per_page_us for fit in found] == pytest.approx([0.03, 0.2], rel=0.4)
    for key in ("fixed_us", "per_lookup_us", "per_row_digit_us", "cache_bytes"):
        assert getattr(found[0].cost, key) == getattr(found[1].cost, key), key
    fresh = points_of(dear, 100, seed=9)
    assert relative_errors(found[1].predict(fresh), fresh.times_us).mean() < 0.1


def test_a_row_has_a_price_of_its_own_where_it_is_updated() -> None:
    """A forward reads lines: what few, wide rows take there says nothing of many narrow ones."""
    points = points_of(TRUTH, 200, seed=5)
    found = fit_lookup(replace(points, is_backward=False))
    assert found.cost.per_unique_row_us == 0
    assert relative_errors(found.predict(points), points.times_us).mean() > 0.05


def test_noise_and_a_few_disturbed_points_do_not_bend_the_fit() -> None:
    noisy = points_of(TRUTH, 200, seed=2, noise=0.05)
    noisy.times_us[::20] *= 5
    noisy.times_us[1::20] /= 5
    fresh = points_of(TRUTH, 100, seed=7)
    assert relative_errors(fit_lookup(noisy).predict(fresh), fresh.times_us).mean() < 0.04


def test_a_gradient_as_large_as_the_table_is_no_part_of_the_cost() -> None:
    found = fit_lookup(points_of(TRUTH, 200, seed=3, gradient_byte_us=3e-4))
    assert found.cost.per_lookup_us == pytest.approx(TRUTH.per_lookup_us, rel=0.05)
    assert found.cost.per_page_us == pytest.approx(TRUTH.per_page_us, rel=0.05)


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=12), st.integers(0, 100))
def test_no_coefficient_is_ever_negative(times: list[float], seed: int) -> None:
    quantities = np.random.default_rng(seed).random((len(times), 4)) * 10.0 ** np.arange(0, 8, 2)
    found = fit_nonnegative(quantities, np.array(times))
    assert (found >= 0).all()
    assert np.isfinite(found).all()


def test_what_is_known_of_a_time_is_left_to_it_and_the_rest_fitted() -> None:
    sizes = np.geomspace(1, 1e3, 12)
    known = np.linspace(0, 500, 12)
    found = fit_nonnegative(np.column_stack([np.ones(12), sizes]), known + 40 + 3 * sizes, known)
    assert found == pytest.approx([40, 3])


def test_points_with_more_weight_pull_harder() -> None:
    quantities, times = np.ones((9, 1)), np.array([100.0] * 5 + [200.0] * 4)
    assert fit_nonnegative(quantities, times)[0] == pytest.approx(100, rel=0.1)
    assert fit_nonnegative(quantities, times, weights=np.array([1.0] * 5 + [10.0] * 4))[0] == pytest.approx(200, rel=0.1)


def test_a_held_out_point_is_never_in_its_own_fit() -> None:
    seen_with: dict[int, set[int]] = {}

    def predict(seen: np.ndarray, unseen: np.ndarray) -> np.ndarray:
        seen_with.update({int(point): set(seen.tolist()) for point in unseen})
        return np.full(len(unseen), 2.0)

    assert held_out(13, 0, predict).tolist() == [2.0] * 13
    assert set(seen_with) == set(range(13))
    assert all(point not in seen and len(seen) >= 10 for point, seen in seen_with.items())


def test_a_residual_sums_up_relative_errors() -> None:
    found = residual("x", np.array([1.1, 2.0, 6.0]), np.array([1.0, 2.0, 4.0]))
    assert found.points == 3
    assert (found.mape, found.median, found.worst) == pytest.approx((0.2, 0.1, 0.5))


def test_errors_are_told_apart_by_what_most_of_the_time_is() -> None:
    predicted, times = np.array([1.1, 2.0, 6.0]).repeat(5), np.array([1.0, 2.0, 4.0]).repeat(5)
    every, overhead, work = residuals_by_regime("x", predicted, times, fixed_us=np.ones(15))
    assert [(one.regime, one.points) for one in (every, overhead, work)] == [(None, 15), (Regime.OVERHEAD, 5), (Regime.WORK, 10)]
    assert [one.worst for one in (every, overhead, work)] == pytest.approx([0.5, 0.1, 0.5])


@pytest.mark.parametrize("of_overhead", [0, 4, 6, 10])
def test_a_regime_of_few_points_is_not_said(of_overhead: int) -> None:
    """There are ten points in all."""
    fixed_us = np.where(np.arange(10) < of_overhead, 1.0, 0.0)
    assert len(residuals_by_regime("x", np.full(10, 1.1), np.ones(10), fixed_us)) == 1


def test_times_that_vary_are_predicted_neither_too_short_nor_too_long() -> None:
    """As shares of themselves, times that happened to be short would weigh more."""
    rng = np.random.default_rng(0)
    quantities = np.stack([np.ones(4000), rng.uniform(1, 50, 4000)], axis=1)
    usual_us = quantities @ np.array([100.0, 20.0])
    found = fit_nonnegative(quantities, usual_us * np.exp(rng.normal(0.0, 0.3, 4000)), of_predicted=True)
    assert np.log(quantities @ found / usual_us).mean() == pytest.approx(0.0, abs=0.02)
