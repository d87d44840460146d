"""Draw the share of jobs in each bucket."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.spread import HistogramChart
from emplace.app.dashboard.drawing.points import short_count
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import line, picture, rect, text

_WIDTH, _TOP, _HEIGHT, _FOOT = 560, 18, 130, 22
_LABEL = 40
"""Wide enough for a label."""


@remembered
def draw_histogram(chart: HistogramChart) -> Markup:
    parts = [line(0, _TOP + _HEIGHT, _WIDTH, _TOP + _HEIGHT, "grid"), *_bars(chart)]
    return picture(f"{chart.title}: {chart.note}", _TOP + _HEIGHT + _FOOT, parts, width=_WIDTH, kind="small")


def _bars(chart: HistogramChart) -> Iterator[str]:
    wide, most = _WIDTH / len(chart.bars), max(bar.share for bar in chart.bars) or 1.0
    every = math.ceil(_LABEL / wide)
    for number, bar in enumerate(chart.bars):
        left, tall = number * wide, _HEIGHT * bar.share / most
        yield rect((left, _TOP, wide, _HEIGHT), "over", bar.tip)
        yield rect((left + 1, _TOP + _HEIGHT - tall, wide - 2, tall), "segment second", bar.tip)
        if bar.share == most:
            yield text(left + wide / 2, _TOP + _HEIGHT - tall - 9, f"{bar.share:.0%}", "value", "middle")
        if number % every == 0 and left + _LABEL <= _WIDTH:
            yield text(left + 1, _TOP + _HEIGHT + 12, short_count(bar.low), "value")
