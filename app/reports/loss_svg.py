"""Loss of a small fleet on the way, as an SVG that stands by itself: asynchronous, synchronous, and the best that is possible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emplace.app.reports.sweep_svg import COLOURS
from emplace.app.reports.sweep_text import short
from emplace.executor.asynchronous.measured import LossPoint
from emplace.studies.fleet_run import FleetRun

_WIDTH, _HEIGHT, _LEFT, _TOP, _LEGEND = 460, 300, 64, 16, 150
_STEPS = 5
"""About so many lines stand across the figure, and values below it."""
_BEST = "best possible"


@dataclass(frozen=True)
class _Scale:
    """From examples and entropies to places in the frame."""

    examples: int
    low: float
    high: float

    def x(self, examples: float) -> float:
        return _LEFT + _WIDTH * examples / self.examples

    def y(self, entropy: float) -> float:
        return _TOP + _HEIGHT * (self.high - entropy) / (self.high - self.low)


def loss_svg(run: FleetRun) -> str:
    """Normalised entropy of examples as they came, over those that were trained on before, and the best on held-out ones."""
    trained = {"asynchronous": run.asynchronous, "synchronous": run.synchronous}
    curves = {name: measured.curve for name, measured in trained.items() if measured is not None}
    best = run.asynchronous.quality.best_normalised_entropy
    scale = _scale([point for curve in curves.values() for point in curve], best)
    width, height = _LEFT + _WIDTH + _LEGEND, _TOP + _HEIGHT + 52
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_frame(scale),
        _best_line(scale, best),
    ]
    for number, curve in enumerate(curves.values()):
        places = " ".join(f"{scale.x(point.examples):.1f},{scale.y(point.normalised_entropy):.1f}" for point in curve)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"/>')
    for number, (name, colour) in enumerate([*zip(curves, COLOURS, strict=False), (_BEST, "#333")]):
        parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{_TOP + 18 + 20 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _scale(points: Sequence[LossPoint], best: float) -> _Scale:
    """Whole steps around everything that is drawn."""
    entropies = [best, *(point.normalised_entropy for point in points)]
    step = _step(max(entropies) - min(entropies))
    low = math.floor(min(entropies) / step) * step
    return _Scale(max(point.examples for point in points), low, max(math.ceil(max(entropies) / step) * step, low + step))


def _step(span: float) -> float:
    """One, two or five of a power of ten, a few of which make the span."""
    least = max(span, 1e-6) / _STEPS
    power = 10.0 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= least)


def _frame(scale: _Scale) -> Iterator[str]:
    bottom, step = _TOP + _HEIGHT, _step(scale.high - scale.low)
    yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#333"/>'
    for number in range(math.ceil(scale.low / step - 1e-6), math.floor(scale.high / step + 1e-6) + 1):
        y = scale.y(number * step)
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number * step:.4g}</text>'
    for part in range(_STEPS):
        examples = scale.examples * part / (_STEPS - 1)
        yield f'<text x="{scale.x(examples):.1f}" y="{bottom + 18}" text-anchor="middle">{short(examples)}</text>'
    yield f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 40}" text-anchor="middle">examples trained on</text>'
    yield f'<text transform="translate(14 {_TOP + _HEIGHT / 2}) rotate(-90)" text-anchor="middle">normalised entropy</text>'


def _best_line(scale: _Scale, best: float) -> str:
    y = scale.y(best)
    return f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#333" stroke-width="1.5" stroke-dasharray="5 4"/>'
