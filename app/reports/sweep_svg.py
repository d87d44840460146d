"""A sweep of one axis as a figure: throughput of each host with its range, as an SVG that stands by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from emplace.studies.figures import Figures
from emplace.studies.sweep import Sweep

_WIDTH, _HEIGHT, _LEFT, _TOP = 460, 300, 64, 16
COLOURS = ("#2563a8", "#c2571a", "#3a7d44", "#7a3e9d", "#00798c", "#8d6a00", "#b03060", "#555555")
_Places = list[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """A line of a figure: what the points along its axis came to."""

    label: str
    figures: Sequence[Figures]


def sweep_svg(sweep: Sweep, title: str | None = None) -> str:
    """A line for each host along the one axis."""
    [axis] = sweep.axes
    hosts = [Series(host, [point.figures for point in sweep.points if point.host == host]) for host in sweep.hosts]
    return series_svg(hosts, axis.values, title or axis.path)


def series_svg(series: Sequence[Series], values: Sequence[object], title: str) -> str:
    """Values stand side by side, evenly; throughput is logarithmic. The band is the range of a step that nobody measured."""
    scale = _Scale.of([figures for each in series for figures in each.figures], len(values))
    width, height = _LEFT + _WIDTH + _legend_width(series), _TOP + _HEIGHT + 52
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_frame(scale, values, title),
    ]
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        parts += _line(scale, each.figures, colour)
        parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{_TOP + 18 + 20 * number}" fill="{colour}">{escape(each.label)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _legend_width(series: Sequence[Series]) -> int:
    return max(150, 24 + 8 * max(len(each.label) for each in series))


class _Scale:
    """From values and throughputs to places in the frame."""

    def __init__(self, low: int, high: int, values: int) -> None:
        self.low, self.high, self._values = low, high, values

    @staticmethod
    def of(figures: Sequence[Figures], values: int) -> _Scale:
        """Whole powers of ten around everything that is drawn."""
        drawn = [end for each in figures if each.throughput for end in each.throughput_range or (each.throughput,)] or [1.0]
        low = math.floor(math.log10(min(drawn)))
        return _Scale(low, max(math.ceil(math.log10(max(drawn))), low + 1), values)

    def x(self, index: int) -> float:
        return _LEFT + _WIDTH * (index + 0.5) / self._values

    def y(self, throughput: float) -> float:
        return _TOP + _HEIGHT * (1 - (math.log10(throughput) - self.low) / (self.high - self.low))


def _frame(scale: _Scale, values: Sequence[object], title: str) -> Iterator[str]:
    bottom, middle = _TOP + _HEIGHT, _LEFT + _WIDTH / 2
    yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#333"/>'
    for power in range(scale.low, scale.high + 1):
        y = scale.y(10**power)
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_spelled(10**power)}</text>'
    for index, value in enumerate(values):
        yield f'<text x="{scale.x(index):.1f}" y="{bottom + 18}" text-anchor="middle">{escape(_spelled(value))}</text>'
    yield f'<text x="{middle}" y="{bottom + 40}" text-anchor="middle">{escape(title)}</text>'
    yield f'<text transform="translate(14 {_TOP + _HEIGHT / 2}) rotate(-90)" text-anchor="middle">examples/s</text>'


def _line(scale: _Scale, figures: Sequence[Figures], colour: str) -> Iterator[str]:
    placed = [(scale.x(index), each.throughput, each.throughput_range) for index, each in enumerate(figures) if each.throughput]
    ranges = [(x, *range_) for x, _, range_ in placed if range_]
    outline = [(x, scale.y(fast)) for x, _, fast in ranges] + [(x, scale.y(slow)) for x, slow, _ in reversed(ranges)]
    middle = [(x, scale.y(throughput)) for x, throughput, _ in placed]
    yield f'<polygon points="{_points(outline)}" fill="{colour}" opacity="0.15"/>'
    yield f'<polyline points="{_points(middle)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in middle)


def _points(places: _Places) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _spelled(value: object) -> str:
    """`200`, `12.8k`, `5M`."""
    if not isinstance(value, int) or value < 10_000:
        return str(value)
    return f"{value / 1e6:g}M" if value >= 10**6 else f"{value / 1e3:g}k"
