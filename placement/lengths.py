"""Feature lengths: how many ids one example carries for one feature.

Six spellings, one meaning: a probability for every whole length, from which mean, variance, quantiles and samples follow.
Truncation keeps the first `truncate` ids, so it moves the probability of longer lengths onto that one.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag, model_validator
from scipy import special

from placement.document import Document

MAX_LENGTH = 1_000_000
"""The longest length of a feature; an unbounded distribution's tail beyond it is put on it."""

_NEGLIGIBLE = 1e-9
"""Tail probability at which an unbounded distribution is cut."""

Pmf = NDArray[np.float64]
Length = Annotated[int, Field(strict=True, ge=0, le=MAX_LENGTH)]


class LengthDistribution:
    """A distribution over whole lengths 0..len(pmf)-1."""

    def __init__(self, pmf: Pmf) -> None:
        self.pmf = pmf / pmf.sum()

    @cached_property
    def _cdf(self) -> Pmf:
        return np.cumsum(self.pmf)

    @cached_property
    def mean(self) -> float:
        """Ids per example: the pooling factor."""
        return float(np.arange(len(self.pmf)) @ self.pmf)

    @cached_property
    def variance(self) -> float:
        lengths = np.arange(len(self.pmf))
        return float(((lengths - self.mean) ** 2) @ self.pmf)

    @property
    def longest(self) -> int:
        return len(self.pmf) - 1

    def quantile(self, q: float) -> int:
        """The smallest length that at least a share `q` of the examples does not exceed."""
        return min(int(np.searchsorted(self._cdf, q - 1e-12)), self.longest)

    def total_quantile(self, q: float, examples: int) -> float:
        """Quantile `q` of the ids in `examples` independent examples (normal approximation, never above the longest possible)."""
        spread = float(special.ndtri(q)) * float(np.sqrt(self.variance * examples))
        return min(self.mean * examples + spread, float(self.longest * examples))

    def sample(self, rng: np.random.Generator, examples: int) -> NDArray[np.int64]:
        """`examples` independent lengths."""
        lengths = np.searchsorted(self._cdf, rng.random(examples) * self._cdf[-1], side="right")
        return np.asarray(np.minimum(lengths, self.longest), dtype=np.int64)

    def truncated(self, longest: int) -> LengthDistribution:
        """Lengths over `longest` become `longest`."""
        if longest >= self.longest:
            return self
        pmf = self.pmf[: longest + 1].copy()
        pmf[-1] += self.pmf[longest + 1 :].sum()
        return LengthDistribution(pmf)


class FixedLength(Document):
    """Every example carries exactly this many ids."""

    fixed: Length

    def pmf(self) -> Pmf:
        pmf = np.zeros(self.fixed + 1)
        pmf[-1] = 1.0
        return pmf


class PoissonLength(Document):
    """Poisson with this mean."""

    poisson: Annotated[float, Field(gt=0, le=MAX_LENGTH / 2)]

    def pmf(self) -> Pmf:
        longest = int(np.ceil(special.pdtrik(1 - _NEGLIGIBLE, self.poisson)))
        return _from_cdf(special.pdtr(np.arange(longest + 1), self.poisson))


class Lognormal(Document):
    mean: Annotated[float, Field(gt=0, le=MAX_LENGTH / 2)]
    sigma: Annotated[float, Field(gt=0, le=5)]


class LognormalLength(Document):
    """A lognormal of this mean (before rounding and truncation) and shape, rounded to the nearest whole length."""

    lognormal: Lognormal

    def pmf(self) -> Pmf:
        sigma = self.lognormal.sigma
        mu = np.log(self.lognormal.mean) - sigma**2 / 2
        longest = min(int(np.ceil(np.exp(mu - sigma * special.ndtri(_NEGLIGIBLE)))), MAX_LENGTH)
        return _from_cdf(special.ndtr((np.log(np.arange(longest + 1) + 0.5) - mu) / sigma))


class PowerLaw(Document):
    mean: Annotated[float, Field(gt=0)]
    alpha: Annotated[float, Field(gt=0, le=20)]
    max: Annotated[int, Field(strict=True, gt=0, le=MAX_LENGTH)]

    @model_validator(mode="after")
    def _mean_is_reachable(self) -> PowerLaw:
        flattest, steepest = self.max / 2, float(np.arange(self.max + 1) @ _zipf_mandelbrot(self.alpha, _SMALLEST_SHIFT, self.max))
        if not steepest < self.mean < flattest:
            raise ValueError(
                f"a power law with alpha {self.alpha} on 0..{self.max} has a mean between {steepest:.3g} and {flattest:.6g}; {self.mean} is outside"
            )
        return self


class PowerLawLength(Document):
    """P(length) proportional to (length + shift)^-alpha on 0..max, the shift chosen so that the mean is `mean`."""

    power_law: PowerLaw

    def pmf(self) -> Pmf:
        from scipy import optimize  # a fifth of a second that other spellings need not pay

        law, lengths = self.power_law, np.arange(self.power_law.max + 1)

        def error(log_shift: float) -> float:
            return float(lengths @ _zipf_mandelbrot(law.alpha, np.exp(log_shift), law.max)) - law.mean

        lowest, highest = np.log(_SMALLEST_SHIFT), np.log(_LARGEST_SHIFT)
        log_shift = optimize.brentq(error, lowest, highest) if error(highest) > 0 else highest
        return _zipf_mandelbrot(law.alpha, float(np.exp(log_shift)), law.max)


_SMALLEST_SHIFT, _LARGEST_SHIFT = 1e-6, 1e12


def _zipf_mandelbrot(alpha: float, shift: float, longest: int) -> Pmf:
    log_weights = -alpha * np.log(np.arange(longest + 1) + shift)
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


class QuantilesLength(Document):
    """Quantile -> length; linear in between, from length 0 at quantile 0, constant above the last."""

    quantiles: dict[str, Annotated[float, Field(ge=0, le=MAX_LENGTH)]]

    @model_validator(mode="after")
    def _rises(self) -> QuantilesLength:
        points = self._points()
        if not points or any(not 0 < q <= 1 for q, _ in points):
            raise ValueError("needs at least one quantile, each above 0 and at most 1")
        if any(low > high for (_, low), (_, high) in pairwise(points)):
            raise ValueError("lengths must not fall as the quantile rises")
        return self

    def __hash__(self) -> int:
        return hash(tuple(self.quantiles.items()))

    def _points(self) -> list[tuple[float, float]]:
        try:
            return sorted((float(q), length) for q, length in self.quantiles.items())
        except ValueError:
            raise ValueError("each key must be a number between 0 and 1, such as '0.5'") from None

    def pmf(self) -> Pmf:
        qs, lengths = (np.array(side) for side in zip(*self._points(), strict=True))
        # Each whole length gets the quantile range that rounds to it.
        qs, lengths = np.append(0.0, qs), np.append(0.0, lengths)
        lengths = lengths + np.arange(len(lengths)) * 1e-9
        longest = int(np.round(lengths[-1]))
        return _from_cdf(np.interp(np.arange(longest + 1) + 0.5, lengths, qs, right=1.0))


class Histogram(Document):
    lengths: Annotated[tuple[Length, ...], Field(min_length=1)]
    weights: tuple[Annotated[float, Field(ge=0)], ...]

    @model_validator(mode="after")
    def _sums_to_one(self) -> Histogram:
        if len(self.lengths) != len(self.weights):
            raise ValueError(f"needs one weight per length: {len(self.lengths)} lengths, {len(self.weights)} weights")
        if len(set(self.lengths)) != len(self.lengths):
            raise ValueError("names a length twice")
        if abs(sum(self.weights) - 1) > 1e-6:
            raise ValueError(f"weights must sum to 1, they sum to {sum(self.weights):.9g}")
        return self


class HistogramLength(Document):
    """Each length with its share of the examples."""

    histogram: Histogram

    def pmf(self) -> Pmf:
        pmf = np.zeros(max(self.histogram.lengths) + 1)
        pmf[list(self.histogram.lengths)] = self.histogram.weights
        return pmf


def _from_cdf(cdf: Any) -> Pmf:
    """Probabilities from cumulative ones; what is left goes to the longest."""
    pmf = np.diff(np.asarray(cdf, dtype=np.float64), prepend=0.0)
    pmf[-1] += max(0.0, 1.0 - float(cdf[-1]))
    return pmf


_SPELLINGS = ("fixed", "poisson", "lognormal", "power_law", "quantiles", "histogram")


def _spelling(value: Any) -> str | None:
    keys = list(value) if isinstance(value, dict) else [field for field in _SPELLINGS if hasattr(value, field)]
    return keys[0] if len(keys) == 1 and keys[0] in _SPELLINGS else None


FeatureLength = Annotated[
    Annotated[FixedLength, Tag("fixed")]
    | Annotated[PoissonLength, Tag("poisson")]
    | Annotated[LognormalLength, Tag("lognormal")]
    | Annotated[PowerLawLength, Tag("power_law")]
    | Annotated[QuantilesLength, Tag("quantiles")]
    | Annotated[HistogramLength, Tag("histogram")],
    Discriminator(
        _spelling,
        custom_error_type="feature_length",
        custom_error_message=f"must be a mapping with exactly one key of {', '.join(_SPELLINGS)}, such as {{fixed: 1}}",
    ),
]


@lru_cache(maxsize=20_000)
def length_distribution(length: FeatureLength, truncate: int | None = None) -> LengthDistribution:
    """The distribution that a spelling stands for, after truncation."""
    distribution = LengthDistribution(length.pmf())
    return distribution if truncate is None else distribution.truncated(truncate)
