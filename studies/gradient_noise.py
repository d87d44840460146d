"""The gradient-noise scale: how large a batch is before a larger one teaches a model little more.

McCandlish et al., An Empirical Model of Large-Batch Training, arXiv 1812.06162: the simple noise scale is tr(Sigma) / |G|^2, of the
covariance of one example's gradient and of the true gradient. Both follow from squared norms at two batch sizes (appendix A.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from emplace.placement.document import Document, broken_rule
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import BatchSize

LEAST_PAIRS = 10
"""With fewer, nobody can say how far they spread."""
_RESAMPLES, _SHARE = 1000, 0.9
_SEED = 0

Positive = Annotated[float, Field(strict=True, gt=0)]
_LEAST, _MOST = 1e-24, 1e24
"""Examples. What is further out could not be told from no noise, or from no gradient."""


class NoiseScale(Document):
    """What was measured of a model's gradients at one point of its training, in examples."""

    schema_version: Literal[1] = 1
    model: str
    """The model that it holds for."""
    measured_at: str = ""
    """When in training, and at which learning rate: the scale grows while a model learns."""
    noise_scale: Annotated[float, Field(strict=True, ge=_LEAST, le=_MOST)]
    """Examples of the global batch at which steps and examples are both twice the least."""
    low: Annotated[float, Field(strict=True, ge=0)]
    high: Annotated[float, Field(strict=True, le=_MOST)] | None = None
    """With `low` nine tenths of what resampled pairs say; None where they don't rule out that there is no gradient but noise."""
    squared_gradient: Positive
    gradient_variance: Positive
    """The trace of the covariance of one example's gradient."""
    small_batch: BatchSize
    large_batch: BatchSize
    pairs: Annotated[int, Field(strict=True, ge=1)]

    @model_validator(mode="after")
    def _holds_its_estimate(self) -> NoiseScale:
        if not self.low <= self.noise_scale or (self.high is not None and self.high < self.noise_scale):
            raise broken_rule("/low", self.low, "must not be above noise_scale, nor high below it")
        return self


def noise_scale(
    small_batch: int,
    large_batch: int,
    small_squared_norms: Sequence[float],
    large_squared_norms: Sequence[float],
    *,
    model: str,
    measured_at: str = "",
) -> NoiseScale:
    """The noise scale that follows from squared norms of gradients, each the mean over the examples of a small or of a large batch.

    The first of either were taken at the same weights, and so on. In data-parallel training the small batch is a rank's own, before the
    gradients are averaged, and the large one that of all ranks. Raises InvalidDocument for figures that say nothing.
    """
    small, large = _norms("small_squared_norms", small_squared_norms), _norms("large_squared_norms", large_squared_norms)
    if not 1 <= small_batch < large_batch:
        raise _refusal("/large_batch", f"{small_batch} and {large_batch}", "must be more than the small batch, and that at least 1")
    if len(small) != len(large) or len(small) < LEAST_PAIRS:
        rule = f"must be as many of either, and at least {LEAST_PAIRS}: one of each batch at the same weights"
        raise _refusal("/large_squared_norms", f"{len(small)} and {len(large)}", rule)
    squared, variance = _estimates(small_batch, large_batch, float(small.mean()), float(large.mean()))
    if squared <= 0 or variance <= 0:
        lost = "the gradient is lost in its noise" if squared <= 0 else "there is less noise in small batches than in large ones"
        rule = f"say nothing of the noise scale: {lost}; take more pairs, or batches that are further apart"
        raise _refusal("/large_squared_norms", f"|G|^2 {squared:.3g}, tr(Sigma) {variance:.3g}", rule)
    low, high = _interval(small_batch, large_batch, small, large)
    value = variance / squared
    return NoiseScale(
        model=model,
        measured_at=measured_at,
        noise_scale=value,
        low=min(low, value),
        high=None if math.isinf(high) else max(high, value),
        squared_gradient=squared,
        gradient_variance=variance,
        small_batch=small_batch,
        large_batch=large_batch,
        pairs=len(small),
    )


def _estimates(small_batch: int, large_batch: int, small: float, large: float) -> tuple[float, float]:
    """|G|^2 and tr(Sigma), both unbiased (arXiv 1812.06162, appendix A.1): E|G_B|^2 = |G|^2 + tr(Sigma) / B."""
    squared = (large_batch * large - small_batch * small) / (large_batch - small_batch)
    return squared, (small - large) / (1 / small_batch - 1 / large_batch)


def _interval(small_batch: int, large_batch: int, small: np.ndarray, large: np.ndarray) -> tuple[float, float]:
    """The middle nine tenths of the ratio over pairs that are drawn anew (bootstrap, Efron 1979)."""
    draw, ratios = np.random.default_rng(_SEED), []
    for _ in range(_RESAMPLES):
        chosen = draw.integers(0, len(small), len(small))
        squared, variance = _estimates(small_batch, large_batch, float(small[chosen].mean()), float(large[chosen].mean()))
        ratios.append(max(variance, 0.0) / squared if squared > 0 else math.inf)
    ratios.sort()
    outside = round(_RESAMPLES * (1 - _SHARE) / 2)
    return ratios[outside], ratios[-1 - outside]


def _norms(name: str, given: Sequence[float]) -> np.ndarray:
    norms = np.asarray(given, dtype=float)
    if norms.ndim != 1 or not np.all(np.isfinite(norms)) or np.any(norms < 0):
        raise _refusal(f"/{name}", "", "must be a list of numbers, none below 0 and none infinite: squared norms of gradients")
    return norms


def _refusal(pointer: str, value: str, rule: str) -> InvalidDocument:
    return InvalidDocument("noise scale", [BrokenRule(pointer, value, rule)])
