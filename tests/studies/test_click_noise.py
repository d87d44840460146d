"""The gradient-noise scale of the click task beside every example's own gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import emplace
from emplace.executor.click_task import ClickTask, Examples
from emplace.executor.click_training import ClickDlrm, ClickTraining, squared_gradients, trained
from emplace.studies.click_noise import ClickNoise, measure_click_noise

pytestmark = pytest.mark.torch

TASK = ClickTask()
SMALL, LARGE = 16, 512
EXAMPLES = 2000
MEASURED, PAIRS = 20, 60


@dataclass(frozen=True)
class Definition:
    """What single gradients come to, with the standard error of the variance."""

    squared_gradient: float
    variance: float
    variance_error: float


@pytest.fixture(scope="module")
def model() -> ClickDlrm:
    return trained(TASK, ClickTraining(64, 2048, 0.3))


@pytest.fixture(scope="module")
def defined(model: ClickDlrm) -> Definition:
    """The trace of the covariance of single gradients, and the square of their mean without what noise adds to it."""
    examples = TASK.examples(EXAMPLES, 99)
    single = np.stack([_gradient(model, examples.part(first, first + 1)) for first in range(EXAMPLES)])
    mean = single.mean(axis=0, dtype=np.float64)
    squares = ((single - mean) ** 2).sum(axis=1, dtype=np.float64)
    variance = float(squares.sum()) / (EXAMPLES - 1)
    return Definition(float(mean @ mean) - variance / EXAMPLES, variance, float(squares.std()) / EXAMPLES**0.5)


def _gradient(model: ClickDlrm, examples: Examples) -> np.ndarray:
    parts = torch.autograd.grad(model.loss(examples), list(model.parameters()))
    return np.concatenate([part.numpy().ravel() for part in parts])


@pytest.fixture(scope="module")
def measured(model: ClickDlrm) -> list[emplace.NoiseScale]:
    """The same measurement with other examples each time."""
    return [_measured(model, seed) for seed in range(MEASURED)]


def _measured(model: ClickDlrm, seed: int) -> emplace.NoiseScale:
    small, large = (squared_gradients(TASK, model, batch, PAIRS, seed, batch) for batch in (SMALL, LARGE))
    return emplace.noise_scale(SMALL, LARGE, small, large, model="click-task")


def test_pairs_come_to_the_variance_and_the_gradient_of_the_definition(measured: list[emplace.NoiseScale], defined: Definition) -> None:
    """Within three standard errors of both: the pairs' own is that between measurements."""
    for values, expected, error in (
        ([each.gradient_variance for each in measured], defined.variance, defined.variance_error),
        ([each.squared_gradient for each in measured], defined.squared_gradient, 0.1 * defined.squared_gradient),
    ):
        own_error = np.std(values, ddof=1) / len(values) ** 0.5
        assert np.mean(values) == pytest.approx(expected, abs=3 * float(np.hypot(own_error, error)))


def test_ranges_hold_the_scale_of_the_definition_about_as_often_as_they_say(
    measured: list[emplace.NoiseScale], defined: Definition
) -> None:
    """Nine in ten; resampled pairs of skewed norms say a little less."""
    truth = defined.variance / defined.squared_gradient
    inside = sum(each.low <= truth <= (np.inf if each.high is None else each.high) for each in measured)
    assert inside >= 0.75 * MEASURED


def test_what_is_asked_for_is_measured_and_said() -> None:
    found = measure_click_noise(ClickNoise(examples=2048, learning_rate=0.3, pairs=20))
    assert (found.model, found.pairs) == ("click-task", 20)
    assert "2,048 examples of SGD in batches of 64, learning rate 0.3" in found.measured_at
    assert found == measure_click_noise(ClickNoise(examples=2048, learning_rate=0.3, pairs=20))
