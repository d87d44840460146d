"""Draw how figures are spread: a line for four jobs in five, a box for half of them, a mark at the median."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.points import ChartAxis
from emplace.app.dashboard.charts.spread import SpreadChart, SpreadRow
from emplace.app.dashboard.drawing.points import shown, ticks
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import line, picture, rect, text

_WIDTH, _LABEL, _VALUE, _TOP, _ROW, _BAR = 560, 124, 62, 6, 24, 14
_TRACK = _WIDTH - _LABEL - _VALUE


@remembered
def draw_spread(chart: SpreadChart) -> Markup:
    bottom = _TOP + len(chart.rows) * _ROW
    parts = [*_grid(chart.axis, bottom)]
    for number, row in enumerate(chart.rows):
        parts += _row(chart.axis, row, _TOP + number * _ROW + _ROW / 2)
    return picture(chart.title, bottom + 24, parts, width=_WIDTH, kind="small")


def _grid(axis: ChartAxis, bottom: float) -> Iterator[str]:
    for value in ticks(axis):
        at = _x(axis, value)
        yield line(at, _TOP, at, bottom, "grid")
        yield text(at, bottom + 12, shown(axis, value), "value", "middle")


def _row(axis: ChartAxis, row: SpreadRow, middle: float) -> Iterator[str]:
    p10, p25, median, p75, p90 = (_x(axis, value) for value in (row.p10, row.p25, row.median, row.p75, row.p90))
    yield line(p10, middle, p90, middle, "whisker")
    yield rect((p25, middle - _BAR / 2, max(p75 - p25, 1.0), _BAR), "segment third", _tip(axis, row))
    yield line(median, middle - _BAR / 2 - 2, median, middle + _BAR / 2 + 2, "limit")
    yield text(_LABEL - 10, middle, row.label, anchor="end")
    yield text(_LABEL + _TRACK + 14, middle, _figure(axis, row.median), "value")


def _x(axis: ChartAxis, value: float) -> float:
    return _LABEL + _TRACK * axis.place(value)


def _figure(axis: ChartAxis, value: float) -> str:
    return f"{100 * value:.3g}%" if axis.kind == "share" else f"{value:,.3g}"


def _tip(axis: ChartAxis, row: SpreadRow) -> str:
    p10, p25, p75, p90 = (_figure(axis, value) for value in (row.p10, row.p25, row.p75, row.p90))
    return f"{row.label}: half of {row.jobs:,} jobs from {p25} to {p75}, four in five from {p10} to {p90}"
