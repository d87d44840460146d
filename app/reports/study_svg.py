"""Figures of studies that stand by themselves: the lines of a sweep of any number of axes, the bars of a ranking or a sizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import product

from emplace.app.reports.sweep_svg import CHARACTER, COLOURS, MOST_SERIES, series_of, series_svg
from emplace.app.reports.sweep_text import short
from emplace.studies.recommend import Recommendation
from emplace.studies.size import Sizing
from emplace.studies.sized_job import SizeOutcome
from emplace.studies.sweep import Sweep

_BARS, _ROW, _END = 360, 26, 110


@dataclass(frozen=True)
class _Bar:
    """`span` is what the value lies in, where that is known."""

    label: str
    value: float
    span: tuple[float, float] | None
    colour: str


def lines_svg(sweep: Sweep) -> str:
    """Throughput along the axis of the most values, a line for each host and each value of the others; of many the first
    few, which says so."""
    lengths = [len(axis.values) for axis in sweep.axes]
    along = lengths.index(max(lengths))
    others = [axis for number, axis in enumerate(sweep.axes) if number != along]
    found = []
    for host, *values in product(sweep.hosts, *(axis.values for axis in others)):
        fixed = dict(zip([axis.path for axis in others], values, strict=True))
        points = [point for point in sweep.points if point.host == host and fixed.items() <= point.values.items()]
        label = ", ".join([host, *(f"{path.rpartition('/')[2]} {value}" for path, value in fixed.items())])
        found.append(series_of(label, points))
    return series_svg(found[:MOST_SERIES], sweep.axes[along].values, sweep.axes[along].path, more=max(0, len(found) - MOST_SERIES))


def ranking_svg(found: Recommendation) -> str:
    """The objective of each host and place, best first, with the range of what nobody measured."""
    hosts = list(found.hosts)
    bars = [
        _Bar(f"{each.host}, {each.place}", each.value, each.value_range, COLOURS[hosts.index(each.host) % len(COLOURS)])
        for each in found.ranking
        if each.value is not None
    ]
    return _bars_svg(bars, str(found.objective))


def sizing_svg(found: Sizing) -> str:
    """The servers of the best job on each host."""
    bars = [
        _Bar(f"{job.host}, {job.training}", float(job.running.servers), None, COLOURS[0])
        for job in found.jobs
        if job.outcome is SizeOutcome.FOUND and job.running is not None
    ]
    return _bars_svg(bars, "servers")


def _bars_svg(bars: Sequence[_Bar], title: str) -> str:
    labels = round(24 + CHARACTER * max((len(bar.label) for bar in bars), default=0))
    width, height = labels + _BARS + _END, 34 + _ROW * len(bars)
    most = max((max(bar.value, *(bar.span or ())) if bar.span else bar.value for bar in bars), default=1.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{labels}" y="18" fill="#333">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        top, length = 28 + _ROW * number, _BARS * bar.value / most
        parts.append(f'<text x="{labels - 8}" y="{top + 14}" text-anchor="end" fill="#333">{escape(bar.label)}</text>')
        parts.append(f'<rect x="{labels}" y="{top}" width="{length:.1f}" height="18" fill="{bar.colour}"/>')
        end = length
        if bar.span is not None and all(map(math.isfinite, bar.span)):
            low, high = (labels + _BARS * each / most for each in sorted(bar.span))
            end = max(length, high - labels)
            parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{top + 9}" y2="{top + 9}" stroke="#333" stroke-width="2"/>')
        parts.append(f'<text x="{labels + end + 6:.1f}" y="{top + 14}" fill="#333">{short(bar.value)}</text>')
    return "\n".join([*parts, "</svg>\n"])
