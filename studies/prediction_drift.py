"""How far predicted steps are from measured ones, and whether that changes as time goes on."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from emplace.placement.document import Document
from emplace.studies.distribution import BucketScale, Distribution, FigureCounter

PeriodKind = Literal["day", "week", "month"]
_MOST_SHOWN = 31
"""More days are put together by weeks, and more weeks by months."""
_MONTH_DAYS, _DAY_S = 30.0, 86_400.0
_LEAST, _LEAST_DAYS = 3, 1.0
"""Fewer measurements, or a shorter time between the first and the last of them, say nothing of 30 days."""


class Period(Document):
    """A day, a week from Monday on, or a month."""

    starts: date
    """In UTC."""
    jobs: int
    p25: float
    median: float
    p75: float


class Trend(Document):
    """How much longer predicted steps grow against measured ones in 30 days: 0.02 is 2%. Least squares over the logarithms of all ratios."""

    per_30_days: float
    range_per_30_days: tuple[float, float]
    """Two standard errors to either side."""
    is_clear: bool
    """Whether zero is outside the range."""


class Prediction(Document):
    """Predicted over measured step, of jobs that have both: above one they were faster than predicted."""

    ratio: Distribution
    dated: int
    """How many of these jobs say when they were measured."""
    period: PeriodKind
    periods: tuple[Period, ...]
    """Those in which anything was measured, in their order."""
    trend: Trend | None = None
    """Absent where fewer than three are dated, or less than a day lies between the first and the last."""


class PredictionCounter:
    """Predicted and measured steps as they come in. What is kept grows with days, not with jobs."""

    def __init__(self) -> None:
        self._ratios = FigureCounter()
        self._periods: dict[PeriodKind, dict[date, FigureCounter]] = {"day": {}, "week": {}, "month": {}}
        self._line = _Line()

    def add(self, predicted_us: float, measured_us: float, at: datetime | None) -> None:
        """One measured job, and when that was, with its zone."""
        ratio = predicted_us / measured_us
        self._ratios.add_one(ratio)
        if at is None:
            return
        self._line.add(at.timestamp() / _DAY_S, math.log(ratio))
        day = at.astimezone(UTC).date()
        starts: dict[PeriodKind, date] = {"day": day, "week": day - timedelta(days=day.weekday()), "month": day.replace(day=1)}
        for period, first in starts.items():
            self._periods[period].setdefault(first, FigureCounter()).add_one(ratio)

    def prediction(self) -> Prediction | None:
        """What came in, None where nothing did."""
        ratios = self._ratios.distribution(BucketScale.RATIO)
        if ratios is None:
            return None
        few = [each for each, counted in self._periods.items() if len(counted) <= _MOST_SHOWN]
        period: PeriodKind = few[0] if few else "month"
        counted = sorted(self._periods[period].items())
        periods = tuple(_period(starts, each) for starts, each in counted)
        return Prediction(ratio=ratios, dated=self._line.count, period=period, periods=periods, trend=self._line.trend())


def _period(starts: date, counted: FigureCounter) -> Period:
    found = counted.distribution(BucketScale.RATIO)
    assert found is not None
    return Period(starts=starts, jobs=found.jobs, p25=found.p25, median=found.median, p75=found.p75)


class _Line:
    """Least squares through points that come in one by one (Welford's sums, which lose no digits to large times)."""

    def __init__(self) -> None:
        self.count = 0
        self._x = self._y = self._xx = self._xy = self._yy = 0.0
        self._first, self._last = math.inf, -math.inf

    def add(self, x: float, y: float) -> None:
        self.count += 1
        self._first, self._last = min(self._first, x), max(self._last, x)
        from_x, from_y = x - self._x, y - self._y
        self._x += from_x / self.count
        self._y += from_y / self.count
        self._xx += from_x * (x - self._x)
        self._xy += from_x * (y - self._y)
        self._yy += from_y * (y - self._y)

    def trend(self) -> Trend | None:
        if self.count < _LEAST or self._last - self._first < _LEAST_DAYS:
            return None
        slope = self._xy / self._xx
        rest = max(0.0, self._yy - slope * self._xy) / (self.count - 2)
        error = math.sqrt(rest / self._xx)
        low, middle, high = (_in_30_days(each) for each in (slope - 2 * error, slope, slope + 2 * error))
        return Trend(per_30_days=middle, range_per_30_days=(low, high), is_clear=low > 0 or high < 0)


def _in_30_days(slope: float) -> float:
    """Within what a float holds, whatever a day makes of it."""
    return math.expm1(max(-700.0, min(700.0, slope * _MONTH_DAYS)))
