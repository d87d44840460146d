"""A click task that can be learnt and whose best predictions are known: examples are drawn from a hidden logistic model.

Normalised entropy is the log loss over that of always predicting the base rate (He et al., "Practical Lessons from Predicting Clicks on
Ads at Facebook", ADKDD 2014). Here it is that of the mean over what may be clicked, so no luck of labels is in it, and nothing has a
lower one than the hidden chances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

NAME = "click-task"
HELD_OUT = 20_000
"""Examples that nobody trains on."""
MOST_EXAMPLES = 2_000_000
"""Those of one training, which are all drawn before: about 0.5 GB."""
_BIAS, _SPREAD = -1.5, 1.5
"""The mean of the hidden logits, and their standard deviation: about a quarter of examples are clicks."""
_SKEW = 3
"""Ids are a uniform number to this power, so that few rows take most accesses."""
_OF_HELD_OUT, _OF_MODEL, _OF_EXAMPLES = 0, 1, 2
"""Streams of random numbers."""


@dataclass(frozen=True)
class Examples:
    """Examples with the hidden chance of a click, and whether there was one."""

    dense: Floats
    ids: Ids
    """[examples, tables, length]"""
    chance: Floats
    clicked: Floats

    def part(self, start: int, end: int) -> Examples:
        """Examples from `start` to `end`."""
        return Examples(self.dense[start:end], self.ids[start:end], self.chance[start:end], self.clicked[start:end])


@dataclass(frozen=True)
class ClickTask:
    """Dense features, and `length` ids of each of the tables, which have `hash` rows. `seed` decides the hidden model and every example."""

    tables: int = 4
    hash: int = 100
    length: int = 3
    dense: int = 8
    seed: int = 0

    def held_out(self) -> Examples:
        """Examples that nobody trains on."""
        return self._draw(np.random.default_rng([self.seed, _OF_HELD_OUT]), HELD_OUT)

    def examples(self, count: int, *stream: int) -> Examples:
        """Examples to train on: the same ones for the same numbers, and others for others."""
        return self._draw(np.random.default_rng([self.seed, _OF_EXAMPLES, *stream]), count)

    def _draw(self, rng: np.random.Generator, count: int) -> Examples:
        dense = rng.standard_normal((count, self.dense), dtype=np.float32)
        uniform = rng.random((count, self.tables, self.length), dtype=np.float32)
        ids = np.minimum((uniform**_SKEW * self.hash).astype(np.int64), self.hash - 1)
        chance = 1 / (1 + np.exp(-_BIAS - _SPREAD * self._standardised(dense, ids)))
        clicked = rng.random(count) < chance
        return Examples(dense, ids, chance.astype(np.float32), clicked.astype(np.float32))

    def _standardised(self, dense: Floats, ids: Ids) -> NDArray[np.float64]:
        """Hidden logits of about standard deviation 1: half of their variance is in dense features, half in sparse ones."""
        of_dense, of_ids = self._effects
        sparse = of_ids[np.arange(self.tables)[None, :, None], ids].sum(axis=(1, 2))
        mean, deviation = self._sparse_moments
        return np.asarray((dense @ of_dense / np.linalg.norm(of_dense) + (sparse - mean) / deviation) / math.sqrt(2))

    @cached_property
    def _effects(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What is hidden: what each dense feature, and each id of each table, does to a logit."""
        rng = np.random.default_rng([self.seed, _OF_MODEL])
        return rng.standard_normal(self.dense), rng.standard_normal((self.tables, self.hash))

    @cached_property
    def _sparse_moments(self) -> tuple[float, float]:
        """Mean and standard deviation of what ids add to a logit, from the exact chance of each id."""
        _, of_ids = self._effects
        chances = np.diff((np.arange(self.hash + 1) / self.hash) ** (1 / _SKEW))
        means = of_ids @ chances
        variances = of_ids**2 @ chances - means**2
        # A table of one row adds the same to all: any deviation will do.
        return self.length * float(means.sum()), float(np.sqrt(self.length * variances.sum())) or 1.0


def expected_loss(chance: NDArray[np.floating], logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """The log loss of each prediction in the mean over what may happen, in nats: less noise than over what happened once."""
    said = logits.astype(np.float64)
    return np.asarray(np.logaddexp(0.0, said) - chance * said)


def base_entropy(chance: NDArray[np.floating]) -> float:
    """The entropy of the base rate: what a normalised entropy of 1 is."""
    return float(_entropy(chance.mean(dtype=np.float64)))


def normalised_entropy(chance: NDArray[np.floating], logits: NDArray[np.floating]) -> float:
    """Expected log loss over the entropy of the base rate; infinite for predictions that are no numbers, of a model that diverged."""
    with np.errstate(invalid="ignore"):
        found = float(expected_loss(chance, logits).mean()) / base_entropy(chance)
    return found if math.isfinite(found) else math.inf


def best_entropy(chance: NDArray[np.floating]) -> float:
    """The normalised entropy of the hidden chances: no model has a lower one."""
    return float(_entropy(chance.astype(np.float64)).mean()) / base_entropy(chance)


def _entropy(chance: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    return np.asarray(-chance * np.log(chance) - (1 - chance) * np.log1p(-chance))
