"""Distributions in bounded memory: figures are kept to three digits, each with the weight of the jobs that have it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise

from emplace.placement.document import Document

Tally = tuple[tuple[float, int], ...]
"""Figures to three digits, and how many of a job's things have each."""

_ROUNDING = 1e-9
_SMALLEST_EDGE = 1e-3
_RATIOS = (0.25, 0.5, 0.67, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0, 4.0)
_TENTHS = tuple(number / 10 for number in range(11))


class BucketScale(StrEnum):
    """How a figure is parted into buckets: shares by tenths, amounts by 1, 2, 5, 10 ..., ratios to either side of one."""

    SHARE = "share"
    AMOUNT = "amount"
    RATIO = "ratio"


class Bucket(Document):
    """From `low` up to `high`, which the last bucket has in it."""

    low: float
    high: float
    share: float
    """The part of all jobs; where a job has several figures, each counts for its part of it."""


class Distribution(Document):
    """Every job weighs the same, however many figures it has. Figures are to three digits. A quantile is the smallest figure that so large
    a share of jobs is at most."""

    scale: BucketScale
    jobs: int
    """That say anything of it."""
    count: int
    """Figures of all of them."""
    min: float
    p10: float
    p25: float
    median: float
    p75: float
    p90: float
    max: float
    mean: float
    buckets: tuple[Bucket, ...]


class FigureCounter:
    """Figures as they come in."""

    def __init__(self) -> None:
        self._weights: dict[float, float] = {}
        self._jobs = self._count = 0

    def add(self, figures: Tally, jobs: int = 1) -> None:
        """The figures of a job, or of several that have the same. Of none nothing is known."""
        of_each = sum(times for _, times in figures)
        if not of_each:
            return
        self._jobs += jobs
        self._count += jobs * of_each
        for figure, times in figures:
            self._weights[figure] = self._weights.get(figure, 0.0) + jobs * times / of_each

    def add_one(self, figure: float) -> None:
        """A job's only figure."""
        self.add(((three_digits(figure), 1),))

    def distribution(self, scale: BucketScale) -> Distribution | None:
        """What came in, None where nothing did."""
        if not self._weights:
            return None
        figures = sorted(self._weights.items())
        low, p10, p25, median, p75, p90, high = _quantiles(figures, (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0))
        return Distribution(
            scale=scale,
            jobs=self._jobs,
            count=self._count,
            min=low,
            p10=p10,
            p25=p25,
            median=median,
            p75=p75,
            p90=p90,
            max=high,
            mean=math.fsum(figure * weight for figure, weight in figures) / self._jobs,
            buckets=tuple(_buckets(figures, _edges(scale, [figure for figure, _ in figures]), self._jobs)),
        )


def three_digits(figure: float) -> float:
    return float(f"{figure:.3g}")


def tally(figures: Iterable[float]) -> Tally:
    """How often each figure is there, smallest first."""
    counts: dict[float, int] = {}
    for figure in figures:
        kept = three_digits(figure)
        counts[kept] = counts.get(kept, 0) + 1
    return tuple(sorted(counts.items()))


def _quantiles(figures: Sequence[tuple[float, float]], wanted: Sequence[float]) -> Iterator[float]:
    """For shares that rise."""
    total = math.fsum(weight for _, weight in figures)
    rest, below = iter(figures), 0.0
    figure, weight = next(rest)
    for share in wanted:
        while below + weight < (share - _ROUNDING) * total:
            below += weight
            figure, weight = next(rest, (figure, total))
        yield figure


def _edges(scale: BucketScale, figures: Sequence[float]) -> tuple[float, ...]:
    """Bounds of buckets, from at most the lowest figure to more than the highest; `figures` rise."""
    low, high = figures[0], figures[-1]
    if scale is BucketScale.SHARE:
        return _TENTHS
    if scale is BucketScale.RATIO:
        return (*([0.0] if low < _RATIOS[0] else []), *_RATIOS, *([math.inf] if high > _RATIOS[-1] else []))
    least = max(next((figure for figure in figures if figure > 0), 1.0), _SMALLEST_EDGE)
    powers = range(math.floor(math.log10(least)), math.floor(math.log10(max(high, least))) + 2)
    edges = [float(f"{step}e{power}") for power in powers for step in (1, 2, 5)]
    first = max(index for index, edge in enumerate(edges) if edge <= least)
    last = min(index for index, edge in enumerate(edges) if edge > max(high, least))
    return (*([0.0] if low < least else []), *edges[first : last + 1])


def _buckets(figures: Sequence[tuple[float, float]], edges: Sequence[float], jobs: int) -> Iterator[Bucket]:
    position = 0
    for number, (low, high) in enumerate(pairwise(edges)):
        held, is_last = 0.0, number == len(edges) - 2
        while position < len(figures) and (is_last or figures[position][0] < high):
            held += figures[position][1]
            position += 1
        top = high if math.isfinite(high) else figures[-1][0]
        yield Bucket(low=low, high=top, share=held / jobs)
