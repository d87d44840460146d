"""Predicted against measured step times, as an SVG that stands by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

Point = tuple[str, float, float]
"""(series, measured ms, predicted ms) of one time."""

_SIZE, _LEFT, _TOP = 420, 64, 24
_COLOURS = ("#2563a8", "#c2571a", "#3a7d44", "#7a3e9d")
_BAND = 1.2


def plot(points: Sequence[Point]) -> str:
    """An SVG with a dot for each time, on logarithmic axes. On the line the prediction is exact, in the band it is within 20%."""
    times = [time for _, *both in points for time in both]
    low, high = math.floor(math.log10(min(times)) * 2) / 2, math.ceil(math.log10(max(times)) * 2) / 2
    scale = _Scale(low, high)
    width, height = _LEFT + _SIZE + 170, _TOP + _SIZE + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_band(scale),
        *_axes(scale),
        *_dots(scale, points),
        "</svg>\n",
    ]
    return "\n".join(parts)


class _Scale:
    """From milliseconds to places in the square."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def x(self, time_ms: float) -> float:
        return _LEFT + _SIZE * self._share(time_ms)

    def y(self, time_ms: float) -> float:
        return _TOP + _SIZE * (1 - self._share(time_ms))

    def _share(self, time_ms: float) -> float:
        return min(1.0, max(0.0, (math.log10(time_ms) - self.low) / (self.high - self.low)))


def _band(scale: _Scale) -> Iterator[str]:
    start, end = 10**scale.low, 10**scale.high
    corners = [(start, start * _BAND), (end / _BAND, end), (end, end), (end, end / _BAND), (start * _BAND, start), (start, start)]
    outline = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in corners)
    yield f'<polygon points="{outline}" fill="#e8e8e8"/>'
    yield f'<line x1="{scale.x(start)}" y1="{scale.y(start)}" x2="{scale.x(end)}" y2="{scale.y(end)}" stroke="#666"/>'


def _axes(scale: _Scale) -> Iterator[str]:
    bottom, right = _TOP + _SIZE, _LEFT + _SIZE
    yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="#333"/>'
    for step in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        if scale.low <= math.log10(step) <= scale.high:
            yield f'<text x="{scale.x(step):.1f}" y="{bottom + 18}" text-anchor="middle">{step}</text>'
            yield f'<text x="{_LEFT - 8}" y="{scale.y(step) + 4:.1f}" text-anchor="end">{step}</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{bottom + 42}" text-anchor="middle">measured, ms</text>'
    middle = _TOP + _SIZE / 2
    yield f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">predicted, ms</text>'


def _dots(scale: _Scale, points: Sequence[Point]) -> Iterator[str]:
    for place, series in enumerate(dict.fromkeys(name for name, _, _ in points)):
        colour = _COLOURS[place % len(_COLOURS)]
        for measured, predicted in [(measured, predicted) for name, measured, predicted in points if name == series]:
            yield f'<circle cx="{scale.x(measured):.1f}" cy="{scale.y(predicted):.1f}" r="3.5" fill="{colour}" fill-opacity="0.65"/>'
        top = _TOP + 16 + 22 * place
        yield f'<circle cx="{_LEFT + _SIZE + 20}" cy="{top - 4}" r="4" fill="{colour}"/>'
        yield f'<text x="{_LEFT + _SIZE + 32}" y="{top}">{series}</text>'
