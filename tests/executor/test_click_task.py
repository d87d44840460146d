"""The click task: nothing predicts better than its hidden model, and the same numbers draw the same examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from emplace.executor.click_task import ClickTask, base_entropy, best_entropy, expected_loss, normalised_entropy


def test_nothing_predicts_better_than_the_hidden_model() -> None:
    chance = ClickTask().held_out().chance.astype(np.float64)
    best, logits = best_entropy(chance), np.log(chance / (1 - chance))
    rng = np.random.default_rng(0)
    for noise in (0.01, 0.1, 1.0):
        assert normalised_entropy(chance, logits + noise * rng.standard_normal(len(chance))) > best
    assert normalised_entropy(chance, logits) == pytest.approx(best)
    assert 0.6 < best < 0.9
    rate = chance.mean()
    assert normalised_entropy(chance, np.full_like(chance, np.log(rate / (1 - rate)))) == pytest.approx(1.0)


def test_clicks_are_drawn_with_the_hidden_chances() -> None:
    examples = ClickTask().held_out()
    happened = -np.log(np.where(examples.clicked > 0, examples.chance, 1 - examples.chance)).mean()
    logits = np.log(examples.chance / (1 - examples.chance))
    assert happened == pytest.approx(expected_loss(examples.chance, logits).mean(), rel=0.02)
    assert examples.clicked.mean() == pytest.approx(examples.chance.mean(), rel=0.02)
    assert base_entropy(examples.chance) < np.log(2)


@pytest.mark.parametrize("task", [ClickTask(), ClickTask(tables=1, hash=2, length=1, dense=1), ClickTask(tables=20, length=10, seed=5)])
def test_hidden_logits_spread_alike_whatever_the_shape(task: ClickTask) -> None:
    chance = task.held_out().chance.astype(np.float64)
    logits = np.log(chance / (1 - chance))
    assert logits.mean() == pytest.approx(-1.5, abs=0.05)
    assert logits.std() == pytest.approx(1.5, rel=0.05)


def test_a_table_of_one_row_says_nothing() -> None:
    chance = ClickTask(tables=1, hash=1).held_out().chance.astype(np.float64)
    assert np.log(chance / (1 - chance)).std() == pytest.approx(1.5 / math.sqrt(2), rel=0.05)


def test_the_same_numbers_draw_the_same_examples_and_others_draw_others() -> None:
    once, again = (ClickTask(seed=3).examples(50, 1) for _ in range(2))
    assert np.array_equal(once.ids, again.ids)
    assert np.array_equal(once.clicked, again.clicked)
    for other in (ClickTask(seed=3).examples(50, 2), ClickTask(seed=3).examples(50, 1, 1), ClickTask(seed=4).examples(50, 1)):
        assert not np.array_equal(once.ids, other.ids)
    assert once.ids.shape == (50, 4, 3)
    assert 0 <= once.ids.min() <= once.ids.max() < 100


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_model_that_diverged_has_no_finite_entropy(wrong: float) -> None:
    chance = ClickTask().held_out().chance
    logits = np.zeros_like(chance)
    logits[7] = wrong
    assert normalised_entropy(chance, logits) == math.inf
