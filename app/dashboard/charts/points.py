"""Points and curves on two axes: predicted against measured, hash size against length, how uneven access is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

BINS = 24


@dataclass(frozen=True)
class ChartAxis:
    """`kind` is time, bytes, count, number or share."""

    title: str
    kind: str
    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """From 0 at the low end to 1 at the high one."""
        if self.is_log:
            low, high, at = (math.log(max(each, 1e-12)) for each in (self.low, self.high, value))
        else:
            low, high, at = self.low, self.high, value
        return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.5


@dataclass(frozen=True)
class ChartPoint:
    """`key` names its colour."""

    x: float
    y: float
    label: str
    key: str = "point"
    href: str | None = None


@dataclass(frozen=True)
class Curve:
    title: str
    key: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class PointsChart:
    """With `diagonal` the line where both are equal; with `margins` how many points lie in each part of either axis."""

    title: str
    x: ChartAxis
    y: ChartAxis
    points: tuple[ChartPoint, ...] = ()
    curves: tuple[Curve, ...] = ()
    diagonal: bool = False
    margins: bool = False
    named: frozenset[str] = field(default_factory=frozenset)
    """Labels that are written beside their points."""

    def margin(self, axis: ChartAxis, values: Iterable[float]) -> list[int]:
        """How many values lie in each of BINS equal parts of an axis."""
        counts = [0] * BINS
        for value in values:
            counts[min(BINS - 1, int(BINS * axis.place(value)))] += 1
        return counts


def axis(title: str, kind: str, values: Iterable[float], *, is_log: bool = False, from_zero: bool = True) -> ChartAxis:
    """An axis on which all values have room."""
    known = list(values) or [0.0, 1.0]
    low, high = min(known), max(known)
    if is_log:
        low, high = max(min((value for value in known if value > 0), default=1.0), 1e-9), max(high, 1e-9)
        return ChartAxis(title, kind, low / 1.3, high * 1.3, is_log=True)
    margin = 0.06 * (high - (0.0 if from_zero else low)) or abs(high) * 0.1 or 1.0
    return ChartAxis(title, kind, 0.0 if from_zero and low >= 0 else low - margin, high + margin)
