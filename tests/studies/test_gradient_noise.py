"""The gradient-noise scale from gradients whose spread is known."""

from __future__ import annotations

import numpy as np
import pytest

import emplace


def squared_norms(gradient: np.ndarray, deviation: float, batch: int, pairs: int, seed: int) -> list[float]:
    """The squared norms of means over batches, of gradients that spread normally about the true one."""
    random = np.random.default_rng(seed)
    drawn = gradient + random.normal(scale=deviation / batch**0.5, size=(pairs, len(gradient)))
    return [float(each) for each in (drawn**2).sum(axis=1)]


def measured(pairs: int, seed: int = 0, size: float = 0.1) -> emplace.NoiseScale:
    gradient = np.full(100, size)
    small, large = (squared_norms(gradient, 1.0, batch, pairs, seed + batch) for batch in (16, 256))
    return emplace.noise_scale(16, 256, small, large, model="mine", measured_at="here")


def test_it_finds_the_ratio_of_variance_and_gradient() -> None:
    """100 weights of variance 1 over a squared gradient of 1."""
    found = measured(2000)
    assert found.squared_gradient == pytest.approx(1.0, rel=0.05)
    assert found.gradient_variance == pytest.approx(100.0, rel=0.05)
    assert found.noise_scale == pytest.approx(100.0, rel=0.05)


def test_nine_in_ten_ranges_hold_the_truth() -> None:
    found = [measured(50, seed) for seed in range(0, 20_000, 1000)]
    inside = sum(each.low <= 100.0 <= (each.high or np.inf) for each in found)
    assert 14 <= inside <= 20
    assert all(each.low <= each.noise_scale <= (each.high or np.inf) for each in found)


def test_more_pairs_say_it_more_closely() -> None:
    few, many = measured(20), measured(2000)
    assert few.high is not None
    assert many.high is not None
    assert many.high - many.low < 0.3 * (few.high - few.low)


def test_where_noise_could_be_all_there_is_it_has_no_upper_bound() -> None:
    found = measured(20, size=0.015)
    assert found.high is None
    assert "high" not in found.to_data()


def test_the_same_norms_have_the_same_range() -> None:
    assert measured(30) == measured(30)


@pytest.mark.parametrize(
    ("small_batch", "small", "large", "said"),
    [
        (256, [1.0] * 10, [1.0] * 10, "must be more than the small batch"),
        (16, [1.0] * 10, [1.0] * 9, "as many of either"),
        (16, [1.0] * 9, [1.0] * 9, "at least 10"),
        (16, [1.0] * 9 + [float("nan")], [1.0] * 10, "squared norms"),
        (16, [1.0] * 10, [0.05] * 10, "lost in its noise"),
        (16, [1.0] * 10, [2.0] * 10, "less noise in small batches"),
    ],
)
def test_norms_that_say_nothing_are_refused(small_batch: int, small: list[float], large: list[float], said: str) -> None:
    with pytest.raises(emplace.InvalidDocument, match=said):
        emplace.noise_scale(small_batch, 256, small, large, model="mine")
