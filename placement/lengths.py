"""Feature lengths: how many ids one example carries for one feature.

Six spellings, one meaning: a distribution over whole lengths, from which mean, variance, quantiles and samples follow.
Truncation keeps the first `truncate` ids, so it moves the probability of longer lengths onto that one.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag, model_validator

from emplace.placement.document import Document, broken_rule
from emplace.placement.special_functions import exprel, normal_cdf, normal_quantile, poisson_cdf, root
from emplace.placement.sums import add_up

MAX_LENGTH = 1_000_000
"""The longest length of a feature; an unbounded distribution's tail beyond it is put on it."""

_NEGLIGIBLE = 1e-9
"""Tail probability at which an unbounded distribution is cut."""

_SINGLE_LENGTHS, _GROWING_BINS = 128, 320
"""So many of the shortest lengths are bins of their own; beyond, so many bins grow by a constant factor."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Length = Annotated[int, Field(strict=True, ge=0, le=MAX_LENGTH)]


class LengthDistribution:
    """Bins of whole lengths: `starts[b] <= length < ends[b]` with probability `mass[b]`, evenly inside the bin.

    Bins are single lengths where those are few or short and a few percent wide beyond, so that a feature costs the same
    whatever its longest length.
    """

    def __init__(self, starts: Ints, ends: Ints, mass: Floats) -> None:
        self.starts, self.ends = starts, ends
        self.mass = mass / mass.sum()

    @cached_property
    def _cdf(self) -> Floats:
        return np.cumsum(self.mass)

    @cached_property
    def mean(self) -> float:
        """Ids per example: the pooling factor."""
        return float((self.starts + self.ends - 1) / 2 @ self.mass)

    @cached_property
    def variance(self) -> float:
        middles, widths = (self.starts + self.ends - 1) / 2, (self.ends - self.starts).astype(np.float64)
        return float(((middles - self.mean) ** 2 + (widths**2 - 1) / 12) @ self.mass)

    @property
    def longest(self) -> int:
        return int(self.ends[-1]) - 1

    def quantile(self, q: float) -> int:
        """The smallest length that at least a share `q` of the examples does not exceed."""
        bin_ = min(int(np.searchsorted(self._cdf, q - 1e-12)), len(self.mass) - 1)
        share = (q - 1e-12 - self._cdf[bin_]) / self.mass[bin_] + 1 if self.mass[bin_] else 0.0
        width = int(self.ends[bin_] - self.starts[bin_])
        return int(self.starts[bin_]) + min(max(int(np.ceil(share * width)) - 1, 0), width - 1)

    def total_quantile(self, q: float, examples: int) -> float:
        """Quantile `q` of the ids in `examples` independent examples (normal approximation, never above the longest possible)."""
        spread = normal_quantile(q) * float(np.sqrt(self.variance * examples))
        return min(self.mean * examples + spread, float(self.longest * examples))

    def sample(self, rng: np.random.Generator, examples: int) -> Ints:
        """`examples` independent lengths."""
        draws = rng.random(examples) * self._cdf[-1]
        bins = np.minimum(np.searchsorted(self._cdf, draws, side="right"), len(self.mass) - 1)
        within = (draws - (self._cdf - self.mass)[bins]) / self.mass[bins]
        lengths = self.starts[bins] + np.floor(within * (self.ends - self.starts)[bins]).astype(np.int64)
        return np.asarray(np.clip(lengths, self.starts[bins], self.ends[bins] - 1))

    def truncated(self, longest: int) -> LengthDistribution:
        """Lengths over `longest` become `longest`."""
        if longest >= self.longest:
            return self
        kept = self.starts < longest
        starts, ends, mass = self.starts[kept], np.minimum(self.ends[kept], longest), self.mass[kept]
        mass = mass * (ends - starts) / (self.ends - self.starts)[kept]
        return LengthDistribution(np.append(starts, longest), np.append(ends, longest + 1), np.append(mass, max(0.0, 1 - mass.sum())))


@lru_cache(maxsize=2_000)
def _bins(shortest: int, longest: int) -> tuple[Ints, Ints]:
    """(starts, ends) of the bins of `shortest`..`longest`; the longest is always a bin of its own."""
    single = np.arange(shortest, min(shortest + _SINGLE_LENGTHS, longest) + 1)
    growing = np.round(np.geomspace(shortest + 1, longest + 1, _GROWING_BINS)).astype(np.int64) - 1
    starts = np.unique(np.concatenate([single, growing, [longest]]))
    return starts, np.append(starts[1:], longest + 1)


def _from_cdf(starts: Ints, ends: Ints, cdf: Any) -> LengthDistribution:
    """The distribution whose lengths are below each bin's end with probability `cdf`; what is left goes to the longest."""
    mass = np.diff(np.asarray(cdf, dtype=np.float64), prepend=0.0)
    mass[-1] += max(0.0, 1.0 - float(cdf[-1]))
    return LengthDistribution(starts, ends, mass)


class FixedLength(Document):
    """Every example carries exactly this many ids."""

    fixed: Length

    def distribution(self) -> LengthDistribution:
        return LengthDistribution(np.array([self.fixed]), np.array([self.fixed + 1]), np.array([1.0]))


class PoissonLength(Document):
    """Poisson with this mean."""

    poisson: Annotated[float, Field(strict=True, gt=0, le=MAX_LENGTH / 2)]

    def distribution(self) -> LengthDistribution:
        first, cdf = poisson_cdf(self.poisson)
        longest = first + int(np.searchsorted(cdf, 1 - _NEGLIGIBLE))
        # As far below the mean as the longest is above; a Poisson's lower tail is the thinner one.
        shortest = max(0, int(2 * self.poisson) - longest - 1)
        starts = np.unique(np.linspace(shortest, longest, _SINGLE_LENGTHS + _GROWING_BINS).astype(np.int64))
        ends = np.append(starts[1:], longest + 1)
        return _from_cdf(starts, ends, cdf[np.maximum(ends - 1 - first, 0)])


class Lognormal(Document):
    mean: Annotated[float, Field(strict=True, gt=0, le=MAX_LENGTH / 2)]
    sigma: Annotated[float, Field(strict=True, gt=0, le=5)]


class LognormalLength(Document):
    """A lognormal of this mean (before rounding and truncation) and shape, rounded to the nearest whole length."""

    lognormal: Lognormal

    def distribution(self) -> LengthDistribution:
        sigma = self.lognormal.sigma
        mu, reach = np.log(self.lognormal.mean) - sigma**2 / 2, -sigma * normal_quantile(_NEGLIGIBLE)
        longest = min(int(np.ceil(np.exp(mu + reach))), MAX_LENGTH)
        starts, ends = _bins(min(int(np.exp(mu - reach)), longest), longest)
        with np.errstate(over="ignore"):  # a shape next to nothing: all lengths are infinitely far on one side, as they should be
            deviations = (np.log(ends - 0.5) - mu) / sigma
        return _from_cdf(starts, ends, normal_cdf(deviations))


class PowerLaw(Document):
    mean: Annotated[float, Field(strict=True, gt=0)]
    alpha: Annotated[float, Field(strict=True, gt=0, le=20)]
    max: Annotated[int, Field(strict=True, gt=0, le=MAX_LENGTH)]

    @model_validator(mode="after")
    def _mean_is_reachable(self) -> PowerLaw:
        flattest, steepest = self.max / 2, _shifted_power(self.alpha, _SMALLEST_SHIFT, self.max).mean
        if not steepest < self.mean < flattest:
            rule = f"must be between {steepest:.3g} and {flattest:.6g}, as for every power law with alpha {self.alpha:g} on 0..{self.max}"
            raise broken_rule("/mean", self.mean, rule)
        return self


class PowerLawLength(Document):
    """P(length) proportional to (length + shift)^-alpha on 0..max, the shift chosen so that the mean is `mean`."""

    power_law: PowerLaw

    def distribution(self) -> LengthDistribution:
        law = self.power_law

        def error(log_shift: float) -> float:
            return _shifted_power(law.alpha, np.exp(log_shift), law.max).mean - law.mean

        lowest, highest = np.log(_SMALLEST_SHIFT), np.log(_LARGEST_SHIFT)
        log_shift = root(error, float(lowest), float(highest)) if error(highest) > 0 else highest
        return _shifted_power(law.alpha, float(np.exp(log_shift)), law.max)


_SMALLEST_SHIFT, _LARGEST_SHIFT = 1e-6, 1e12


def _shifted_power(alpha: float, shift: float, longest: int) -> LengthDistribution:
    """P(length) proportional to (length + shift)^-alpha (Zipf-Mandelbrot); over a wide bin, its integral."""
    starts, ends = _bins(0, longest)
    log_mass = -alpha * np.log(starts + shift)
    wide = int(np.argmax(ends - starts > 1)) if len(starts) <= longest else len(starts)
    log_low, log_high = np.log(starts[wide:] + (shift - 0.5)), np.log(ends[wide:] + (shift - 0.5))
    width = log_high - log_low
    log_mass[wide:] = (1 - alpha) * log_low + np.log(width * exprel((1 - alpha) * width))
    return LengthDistribution(starts, ends, np.exp(log_mass - log_mass.max()))


class QuantilesLength(Document):
    """Quantile -> length; linear in between, from length 0 at quantile 0, constant above the last."""

    quantiles: dict[str, Annotated[float, Field(strict=True, ge=0, le=MAX_LENGTH)]]

    @model_validator(mode="after")
    def _rises(self) -> QuantilesLength:
        points = self._points()
        if not points or any(not 0 < q <= 1 for q, _ in points):
            raise broken_rule("/quantiles", self.quantiles, "needs at least one quantile, each above 0 and at most 1")
        if any(low > high for (_, low), (_, high) in pairwise(points)):
            raise broken_rule("/quantiles", self.quantiles, "lengths must not fall as the quantile rises")
        return self

    def __hash__(self) -> int:
        return hash(tuple(self.quantiles.items()))

    def _points(self) -> list[tuple[float, float]]:
        try:
            return sorted((float(q), length) for q, length in self.quantiles.items())
        except ValueError:
            rule = "each key must be a number between 0 and 1, such as '0.5'"
            raise broken_rule("/quantiles", self.quantiles, rule) from None

    def distribution(self) -> LengthDistribution:
        qs, lengths = (np.array(side) for side in zip(*self._points(), strict=True))
        # Each whole length gets the quantile range that rounds to it.
        qs, lengths = np.append(0.0, qs), np.append(0.0, lengths)
        lengths = lengths + np.arange(len(lengths)) * 1e-9
        starts, ends = _bins(0, int(np.round(lengths[-1])))
        return _from_cdf(starts, ends, np.interp(ends - 0.5, lengths, qs, right=1.0))


class Histogram(Document):
    lengths: Annotated[tuple[Length, ...], Field(min_length=1)]
    weights: tuple[Annotated[float, Field(strict=True, ge=0)], ...]

    @model_validator(mode="after")
    def _sums_to_one(self) -> Histogram:
        if len(self.lengths) != len(self.weights):
            raise broken_rule("/weights", self.weights, f"must be one per length: {len(self.lengths)} lengths, {len(self.weights)} weights")
        if len(set(self.lengths)) != len(self.lengths):
            raise broken_rule("/lengths", self.lengths, "must not name a length twice")
        if abs(add_up(self.weights) - 1) > 1e-6:
            raise broken_rule("/weights", self.weights, f"must sum to 1, they sum to {add_up(self.weights):.9g}")
        return self


class HistogramLength(Document):
    """Each length with its share of the examples."""

    histogram: Histogram

    def distribution(self) -> LengthDistribution:
        lengths, weights = (
            np.array(side) for side in zip(*sorted(zip(self.histogram.lengths, self.histogram.weights, strict=True)), strict=True)
        )
        present = weights > 0
        return LengthDistribution(lengths[present], lengths[present] + 1, weights[present])


LENGTH_SPELLINGS = ("fixed", "poisson", "lognormal", "power_law", "quantiles", "histogram")


def _spelling(value: Any) -> str | None:
    keys = list(value) if isinstance(value, dict) else [field for field in LENGTH_SPELLINGS if hasattr(value, field)]
    return keys[0] if len(keys) == 1 and keys[0] in LENGTH_SPELLINGS else None


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
        custom_error_message=f"must be a mapping with exactly one key of {', '.join(LENGTH_SPELLINGS)}, such as {{fixed: 1}}",
    ),
]


@lru_cache(maxsize=20_000)
def length_distribution(length: FeatureLength, truncate: int | None = None) -> LengthDistribution:
    """The distribution that a spelling stands for, after truncation."""
    distribution = length.distribution()
    return distribution if truncate is None else distribution.truncated(truncate)
