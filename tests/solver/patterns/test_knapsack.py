"""The most_violated pattern against every pattern there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from emplace.solver.model.problem import Floats
from emplace.solver.patterns import knapsack as exact_pricing
from emplace.solver.patterns.knapsack import Knapsack, most_violated


def drawn(seed: int, tables: int, tight: float) -> tuple[Knapsack, Floats]:
    """A knapsack of one stage, and values; some items use whole tenths, so that sums often meet the limit exactly."""
    rng = np.random.default_rng(seed)
    first = np.append(0, np.cumsum(rng.integers(1, 4, tables)))
    use = rng.uniform(0.02, tight, (first[-1], int(rng.integers(1, 4))))
    use = np.where(rng.random(use.shape) < 0.3, np.ceil(use * 10) / 10, use)
    return Knapsack(first, use, use[:, :1].copy(), np.zeros(1), np.zeros(1), 1.0), rng.uniform(0.0, 1.0, first[-1])


def best_of_all(knapsack: Knapsack, value: Floats) -> float:
    choices = [[-1, *range(a, b)] for a, b in zip(knapsack.first[:-1], knapsack.first[1:], strict=True)]
    taken = ([item for item in pattern if item >= 0] for pattern in product(*choices))
    return max(float(value[items].sum()) for items in taken if (knapsack.use[items].sum(axis=0) <= 1 + 1e-12).all())


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
    assert found.items is not None
    items = found.items[found.items >= 0]
    assert value[items].sum() == pytest.approx(most, rel=1e-12)
    assert (knapsack.use[items].sum(axis=0) <= 1 + 1e-12).all()
    above = most_violated(knapsack, value, most * (1 + 1e-9), 10**6)
    assert above.finished
    assert above.items is None


def test_a_grid_finishes_what_is_too_much_without() -> None:
    knapsack, value = drawn(0, tables=30, tight=0.6)
    value = knapsack.use.sum(axis=1) + value * 0.02
    assert not most_violated(knapsack, value, 0.0, exact_pricing.QUICK_STEPS).finished
    assert most_violated(knapsack, value, 0.0, 3_000_000).finished
