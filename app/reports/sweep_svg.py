"""A sweep of one axis as a figure: throughput of each host with its range, as an SVG that stands by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from emplace.studies.figures import Figures
from emplace.studies.measured import PointMeasurement
from emplace.studies.sweep import Sweep, SweepPoint

_WIDTH, _HEIGHT, _LEFT, _TOP = 460, 300, 64, 16
COLOURS = ("#2563a8", "#c2571a", "#3a7d44", "#7a3e9d", "#00798c", "#8d6a00", "#b03060", "#555555")
MOST_SERIES = len(COLOURS)
"""Lines of one figure that are told apart."""
CHARACTER = 7.2
"""Width of one at the size of labels, about."""
_Places = list[tuple[float, float]]


class PlottedLevel(NamedTuple):
    """How high a point is, and the range that it may lie in."""

    value: float
    range: tuple[float, float] | None


@dataclass(frozen=True)
class Series:
    """A line of a figure: what the points along its axis came to."""

    label: str
    levels: Sequence[PlottedLevel | None]
    measured: Sequence[PointMeasurement | None] = ()
    """What each point was measured at, where they were."""
    ringed: int | None = None
    """The one that stands out."""


def sweep_svg(sweep: Sweep, title: str | None = None) -> str:
    """A line for each host along the one axis."""
    [axis] = sweep.axes
    hosts = [series_of(host, [point for point in sweep.points if point.host == host]) for host in sweep.hosts]
    return series_svg(hosts, axis.values, title or axis.path)


def level_of(figures: Figures) -> PlottedLevel | None:
    """Its throughput; None where there is no plan."""
    return PlottedLevel(figures.throughput, figures.throughput_range) if figures.throughput else None


def series_of(label: str, points: Sequence[SweepPoint]) -> Series:
    return Series(label, [level_of(point.figures) for point in points], [point.measured for point in points])


def series_svg(
    series: Sequence[Series], values: Sequence[object], title: str, unit: str = "examples/s", ring: str = "", more: int = 0
) -> str:
    """Values stand side by side, evenly; levels are logarithmic, in `unit`. The band is the range of a step that nobody measured. What was
    measured is dashed, with rings and bars that leave out one step in twenty at either end. `ring` says what points stand out for; `more` lines than
    these are there and are not drawn."""
    scale = _Scale.of(list(_drawn(series)), len(values))
    width, height = _LEFT + _WIDTH + _legend_width(series), _TOP + _HEIGHT + 52
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_frame(scale, values, title, unit),
    ]
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        parts += _line(scale, each, colour)
        parts += _measured_line(scale, each, colour)
        parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{_TOP + 18 + 20 * number}" fill="{colour}">{escape(each.label)}</text>')
    below = _TOP + 28 + 20 * len(series)
    if more:
        parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{below - 10}" fill="#333">{len(series)} of {len(series) + more} lines</text>')
        below += 20
    if any(map(_was_measured, series)):
        parts += _key(below)
    if any(each.ringed is not None for each in series):
        parts += [_ring(_LEFT + _WIDTH + 24, below - 4, "#333"), _word(below, ring)]
    return "\n".join([*parts, "</svg>\n"])


def _was_measured(series: Series) -> bool:
    return any(series.measured)


def _drawn(series: Sequence[Series]) -> Iterator[float]:
    """Every level that has a place in the frame."""
    for each in series:
        for level in each.levels:
            if level is not None:
                yield from level.range or (level.value,)
        for point in each.measured:
            if point is not None:
                yield from _ends(point)


def _ends(point: PointMeasurement) -> tuple[float, float]:
    """(slow, fast) throughput of one step in twenty at either end."""
    examples = point.throughput * point.step_time_us
    return examples / point.step_range_us[1], examples / point.step_range_us[0]


def _legend_width(series: Sequence[Series]) -> int:
    return max(150, 24 + 8 * max(len(each.label) for each in series))


class _Scale:
    """From values and levels to places in the frame."""

    def __init__(self, low: int, high: int, values: int) -> None:
        self.low, self.high, self._values = low, high, values

    @staticmethod
    def of(levels: Sequence[float], values: int) -> _Scale:
        """Whole powers of ten around everything that is drawn."""
        drawn = levels or [1.0]
        low = math.floor(math.log10(min(drawn)))
        return _Scale(low, max(math.ceil(math.log10(max(drawn))), low + 1), values)

    def x(self, index: int) -> float:
        return _LEFT + _WIDTH * (index + 0.5) / self._values

    def y(self, level: float) -> float:
        return _TOP + _HEIGHT * (1 - (math.log10(level) - self.low) / (self.high - self.low))


def _frame(scale: _Scale, values: Sequence[object], title: str, unit: str) -> Iterator[str]:
    bottom, middle = _TOP + _HEIGHT, _LEFT + _WIDTH / 2
    yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#333"/>'
    for power in range(scale.low, scale.high + 1):
        y = scale.y(10**power)
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_spelled(10**power)}</text>'
    labels = list(map(_spelled, values))
    every = math.ceil(len(labels) * CHARACTER * (max(map(len, labels)) + 0.5) / _WIDTH)  # else they would run into each other
    for index in range(0, len(labels), every):
        yield f'<text x="{scale.x(index):.1f}" y="{bottom + 18}" text-anchor="middle">{escape(labels[index])}</text>'
    yield f'<text x="{middle}" y="{bottom + 40}" text-anchor="middle">{escape(title)}</text>'
    yield f'<text transform="translate(14 {_TOP + _HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(unit)}</text>'


def _line(scale: _Scale, series: Series, colour: str) -> Iterator[str]:
    placed = [(scale.x(index), level) for index, level in enumerate(series.levels) if level]
    ranges = [(x, *level.range) for x, level in placed if level.range]
    outline = [(x, scale.y(most)) for x, _, most in ranges] + [(x, scale.y(least)) for x, least, _ in reversed(ranges)]
    middle = [(x, scale.y(level.value)) for x, level in placed]
    yield f'<polygon points="{_points(outline)}" fill="{colour}" opacity="0.15"/>'
    yield f'<polyline points="{_points(middle)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in middle)
    if series.ringed is not None and (level := series.levels[series.ringed]):
        yield _ring(scale.x(series.ringed), scale.y(level.value), colour)


def _measured_line(scale: _Scale, series: Series, colour: str) -> Iterator[str]:
    placed = [(scale.x(index), each) for index, each in enumerate(series.measured) if each is not None]
    if len(placed) > 1:
        middle = [(x, scale.y(each.throughput)) for x, each in placed]
        yield f'<polyline points="{_points(middle)}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="5 4"/>'
    for x, each in placed:
        slow, fast = map(scale.y, _ends(each))
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{slow:.1f}" y2="{fast:.1f}" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<circle cx="{x:.1f}" cy="{scale.y(each.throughput):.1f}" r="4.5" fill="white" stroke="{colour}" stroke-width="1.5"/>'


def _key(y: int) -> Iterator[str]:
    """What solid and dashed lines are."""
    left = _LEFT + _WIDTH + 12
    for row, (word, dashes) in enumerate((("predicted", ""), ("measured", ' stroke-dasharray="5 4"'))):
        at = y + 20 * row
        yield f'<line x1="{left}" x2="{left + 24}" y1="{at - 4}" y2="{at - 4}" stroke="#333" stroke-width="1.5"{dashes}/>'
        yield _word(at, word)


def _word(y: int, word: str) -> str:
    """A word of the key, right of its sign."""
    return f'<text x="{_LEFT + _WIDTH + 44}" y="{y}" fill="#333">{escape(word)}</text>'


def _ring(x: float, y: float, colour: str) -> str:
    return f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="7" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _points(places: _Places) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _spelled(value: object) -> str:
    """`200`, `12.8k`, `5M`."""
    if not isinstance(value, int) or value < 10_000:
        return str(value)
    return f"{value / 1e6:g}M" if value >= 10**6 else f"{value / 1e3:g}k"
