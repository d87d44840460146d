"""Draw a chart as inline SVG. Colours are CSS classes, so they follow the page's light or dark theme."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from markupsafe import Markup

from emplace.app.dashboard.charts import Bar, Chart

_WIDTH, _LABEL, _VALUE = 1080, 76, 160
_BAR, _GAP, _TOP = 16, 8, 4
_TRACK = _WIDTH - _LABEL - _VALUE


def draw(chart: Chart, spell: Callable[[float], str]) -> Markup:
    """The chart as SVG; `spell` writes a value for people. It is hidden from screen readers, which read the table beside it."""
    height = _TOP + len(chart.bars) * (_BAR + _GAP)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" class="chart" role="img" aria-label="{escape(chart.title)}">']
    for index, bar in enumerate(chart.bars):
        parts.extend(_bar(bar, chart.scale, _TOP + index * (_BAR + _GAP), spell))
    parts.append("</svg>")
    return Markup("".join(parts))


def _bar(bar: Bar, scale: float, top: int, spell: Callable[[float], str]) -> list[str]:
    middle = top + _BAR / 2
    parts = [
        f'<text class="label" x="{_LABEL - 8}" y="{middle}" text-anchor="end" dominant-baseline="central">{escape(bar.label)}</text>',
        f'<rect class="track" x="{_LABEL}" y="{top}" width="{_TRACK}" height="{_BAR}" rx="3"/>',
    ]
    left = float(_LABEL)
    for segment in bar.segments:
        width = _TRACK * segment.value / scale
        tip = escape(f"{bar.label}, {segment.title}: {spell(segment.value)}")
        parts.append(
            f'<rect class="segment {escape(segment.key)}" x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_BAR}"><title>{tip}</title></rect>'
        )
        left += width
    text = spell(bar.total)
    if bar.limit is not None:
        at = _LABEL + _TRACK * bar.limit / scale
        parts.append(f'<line class="limit" x1="{at:.2f}" x2="{at:.2f}" y1="{top - 3}" y2="{top + _BAR + 3}"/>')
        text = f"{spell(bar.total)} of {spell(bar.limit)}"
    parts.append(f'<text class="value" x="{_LABEL + _TRACK + 8}" y="{middle}" dominant-baseline="central">{escape(text)}</text>')
    return parts
