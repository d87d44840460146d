"""The most_violated pattern against every pattern there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from emplace.solver.model.problem import Floats, Ints
from emplace.solver.patterns import knapsack as exact_pricing
from emplace.solver.patterns.knapsack import Knapsack, most_violated


def drawn(seed: int, tables: int, tight: float) -> tuple[Knapsack, Floats]:
    """A knapsack of one stage, and values; some items use whole tenths, so that sums often meet the limit exactly."""
    rng = np.random.default_rng(seed)
    first = np.append(0, np.cumsum(rng.integers(1, 4, tables)))
    use = rng.uniform(0.02, tight, (first[-1], int(rng.integers(1, 4))))
    use = np.where(rng.random(use.shape) < 0.3, np.ceil(use * 10) / 10, use)
    return Knapsack(first, use, use[:, :1].copy(), np.zeros(1), np.zeros(1), 1.0), rng.uniform(0.0, 1.0, first[-1])


def with_stages(seed: int, tables: int) -> tuple[Knapsack, Floats]:
    """A knapsack of three stages, of which one comes in steps, and of memory; their sum is short too."""
    rng = np.random.default_rng(seed)
    first = np.append(0, np.cumsum(rng.integers(1, 4, tables)))
    time, lower, held = rng.uniform(0.05, 0.6, (first[-1], 3)), rng.uniform(0.0, 0.5, 3), rng.uniform(0.0, 0.2, 3)
    time[:, 1] = 0.07 * rng.integers(0, 8, first[-1])
    use = np.hstack([time / (1.0 - held), rng.uniform(0.02, 0.7, (first[-1], 1))])
    return Knapsack(first, use, time, lower, held, float(rng.uniform(1.6, 3.0))), rng.uniform(0.0, 1.0, first[-1])


def best_of_all(knapsack: Knapsack, value: Floats) -> float:
    choices = [[-1, *range(a, b)] for a, b in zip(knapsack.first[:-1], knapsack.first[1:], strict=True)]
    taken = ([item for item in pattern if item >= 0] for pattern in product(*choices))
    return max(float(value[items].sum()) for items in taken if fits(knapsack, items))


def fits(knapsack: Knapsack, items: list[int] | Ints) -> bool:
    total = np.maximum(knapsack.lower, knapsack.held + knapsack.time[items].sum(axis=0)).sum()
    return bool((knapsack.use[items].sum(axis=0) <= 1 + 1e-12).all() and total <= knapsack.limit * (1 + 1e-12))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("quick_steps", [1, 50_000])
def test_finds_the_dearest_pattern(seed: int, quick_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a grid from the start, and without."""
    monkeypatch.setattr(exact_pricing, "QUICK_STEPS", quick_steps)
    knapsack, value = drawn(seed, tables=6, tight=0.7)
    most = best_of_all(knapsack, value)
    found = most_violated(knapsack, value, 0.0, 10**6)
    assert found.finished
    assert found.value == pytest.approx(most, rel=1e-12)
    items = found.patterns[0]
    assert value[items].sum() == pytest.approx(most, rel=1e-12)
    assert (knapsack.use[items].sum(axis=0) <= 1 + 1e-12).all()
    above = most_violated(knapsack, value, most * (1 + 1e-9), 10**6)
    assert above.finished
    assert not above.patterns


def test_a_grid_finishes_what_is_too_much_without() -> None:
    knapsack, value = drawn(0, tables=30, tight=0.6)
    value = knapsack.use.sum(axis=1) + value * 0.02
    assert not most_violated(knapsack, value, 0.0, exact_pricing.QUICK_STEPS).finished
    assert most_violated(knapsack, value, 0.0, 3_000_000).finished


@pytest.mark.parametrize("seed", range(80))
def test_finds_the_dearest_pattern_of_several_stages(seed: int) -> None:
    knapsack, value = with_stages(seed, tables=6)
    most = best_of_all(knapsack, value)
    found = most_violated(knapsack, value, 0.0, 10**6)
    assert found.finished
    assert found.value == pytest.approx(most, rel=1e-12)
    worth = [float(value[items].sum()) for items in found.patterns]
    assert worth[0] == pytest.approx(most, rel=1e-12)
    assert worth == sorted(worth, reverse=True)
    assert all(fits(knapsack, items) for items in found.patterns)
    above = most_violated(knapsack, value, most * (1 + 1e-9), 10**6)
    assert above.finished
    assert not above.patterns


def test_a_search_over_several_stages_that_runs_out_says_so() -> None:
    knapsack, value = with_stages(0, tables=30)
    assert not most_violated(knapsack, value, 0.0, 100).finished
    assert most_violated(knapsack, value, 0.0, 10**9).steps < 10**9


def test_no_more_of_a_resource_counts_than_whole_steps_fill() -> None:
    """Three of twelve items fill nine tenths, and a fourth has no place, however much its table is worth."""
    use = np.full((12, 1), 0.3)
    knapsack = Knapsack(np.arange(13), use, np.repeat(use, 2, axis=1), np.zeros(2), np.zeros(2), 2.0)
    found = most_violated(knapsack, np.ones(12), 3.0 + 1e-9, 10**6)
    assert (found.patterns, found.finished) == ((), True)
    assert found.steps < 100


def test_items_that_fill_a_resource_to_the_last_step_fit() -> None:
    """Sixths, which no floating-point number is: rounding must not cost one."""
    use = np.repeat([[1 / 3], [1 / 6]], 3, axis=0)
    knapsack = Knapsack(np.arange(7), use, np.repeat(use, 2, axis=1), np.zeros(2), np.zeros(2), 2.0)
    found = most_violated(knapsack, np.array([2.0, 2.0, 2.0, 1.0, 1.0, 1.0]), 5.5, 10**6)
    assert found.value == 6.0
