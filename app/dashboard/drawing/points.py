"""Draw points and curves on two axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from markupsafe import Markup

from emplace.app.dashboard.charts.points import ChartAxis, ChartPoint, PointsChart
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import line, picture, rect, text
from emplace.app.dashboard.units import unit_of

_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 36, 26, 52
_WIDTH, _HEIGHT, _MARGIN = 720, 400, 54
_TICKS = 4


@remembered
def draw_points(chart: PointsChart) -> Markup:
    margin = _MARGIN if chart.margins else 0
    parts = [*_axes(chart, margin), *_margins(chart, margin), *_curves(chart, margin), *_points(chart, margin)]
    return picture(chart.title, _HEIGHT, parts, width=_WIDTH, kind="points", has_links=any(point.href for point in chart.points))


def _box(margin: float) -> tuple[float, float, float, float]:
    """Left, top, width and height of where points are."""
    return _LEFT, _TOP + margin, _WIDTH - _LEFT - _RIGHT - margin, _HEIGHT - _TOP - _BOTTOM - margin


def _place(chart: PointsChart, margin: float, x: float, y: float) -> tuple[float, float]:
    left, top, width, height = _box(margin)
    return left + width * chart.x.place(x), top + height * (1 - chart.y.place(y))


def _axes(chart: PointsChart, margin: float) -> Iterator[str]:
    left, top, width, height = _box(margin)
    for value in ticks(chart.x):
        at, _ = _place(chart, margin, value, chart.y.low)
        yield line(at, top, at, top + height, "grid")
        yield text(at, top + height + 14, shown(chart.x, value), "value", "middle")
    for value in ticks(chart.y):
        _, at = _place(chart, margin, chart.x.low, value)
        yield line(left, at, left + width, at, "grid")
        yield text(left - 8, at, shown(chart.y, value), "value", "end")
    yield text(left + width / 2, top + height + 36, chart.x.title, "strong", "middle")
    yield text(left, 10, chart.y.title, "strong")
    if chart.diagonal:
        low, high = max(chart.x.low, chart.y.low), min(chart.x.high, chart.y.high)
        yield line(*_place(chart, margin, low, low), *_place(chart, margin, high, high), "equal")


def ticks(axis: ChartAxis) -> list[float]:
    """Round values on the axis, two at least: powers of ten on a logarithmic one, with 2 and 5 times of them or even steps where it is short."""
    if axis.is_log and len(powers := _powers(axis)) > 1:
        return powers
    if axis.is_log and len(between := _between_powers(axis)) > 1:
        return between
    step = _round_step((axis.high - axis.low) / _TICKS)
    step = max(1.0, math.ceil(step)) if axis.kind == "count" else step
    first = math.ceil(axis.low / step - 1e-9)
    return [step * number for number in range(first, math.floor(axis.high / step + 1e-9) + 1)]


def _powers(axis: ChartAxis) -> list[float]:
    first, last = math.ceil(math.log10(axis.low)), math.floor(math.log10(axis.high))
    return [10.0**power for power in range(first, last + 1, max(1, (last - first) // 6 + 1))]


def _between_powers(axis: ChartAxis) -> list[float]:
    powers = range(math.floor(math.log10(axis.low)), math.floor(math.log10(axis.high)) + 1)
    values = [10.0**power * times for power in powers for times in (1, 2, 5)]
    return [value for value in values if axis.low <= value <= axis.high]


def _round_step(step: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= step * 0.999)


def shown(axis: ChartAxis, value: float) -> str:
    if axis.kind in ("count", "number"):
        return short_count(value)
    if axis.kind == "share":
        return f"{100 * value:.6g}%"
    unit = unit_of(axis.kind, [axis.high])
    return f"{value / unit.size:.6g} {unit.name}"


def short_count(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}" if value % size == 0 else f"{value / size:.1f}{suffix}"
    return f"{value:.3g}"


def _margins(chart: PointsChart, margin: float) -> Iterator[str]:
    if not margin:
        return
    left, top, width, height = _box(margin)
    across = chart.margin(chart.x, (point.x for point in chart.points))
    down = chart.margin(chart.y, (point.y for point in chart.points))
    for index, count in enumerate(across):
        tall = (margin - 22) * count / (max(across) or 1)
        yield rect((left + index * width / len(across), top - 4 - tall, width / len(across) - 1, tall), "segment sum")
    for index, count in enumerate(down):
        wide = (margin - 8) * count / (max(down) or 1)
        yield rect((left + width + 4, top + height - (index + 1) * height / len(down), wide, height / len(down) - 1), "segment sum")


def _curves(chart: PointsChart, margin: float) -> Iterator[str]:
    for curve in chart.curves:
        path = "L".join("{:.1f} {:.1f}".format(*_place(chart, margin, x, y)) for x, y in curve.points)
        yield f'<path class="curve {escape(curve.key)}" d="M{path}"><title>{escape(curve.title)}</title></path>'


def _points(chart: PointsChart, margin: float) -> Iterator[str]:
    labelled: set[tuple[float, float]] = set()
    for point in chart.points:
        x, y = _place(chart, margin, point.x, point.y)
        drawn = f'<circle class="point {escape(point.key)}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{escape(_tip(chart, point))}</title></circle>'
        yield f'<a href="{escape(point.href)}" aria-label="{escape(point.label)}">{drawn}</a>' if point.href else drawn
        if point.label in chart.named and (x, y) not in labelled:  # of equal ones the first: one on another can't be read
            labelled.add((x, y))
            to_left = x > _WIDTH * 0.75
            yield text(x - 8 if to_left else x + 8, y, point.label, "label", "end" if to_left else "start")


def _tip(chart: PointsChart, point: ChartPoint) -> str:
    return f"{point.label}: {chart.x.title} {_exact(chart.x, point.x)}, {chart.y.title} {_exact(chart.y, point.y)}"


def _exact(axis: ChartAxis, value: float) -> str:
    return f"{value:,.4g}" if axis.kind in ("count", "number", "share") else unit_of(axis.kind, [axis.high]).show(value)
