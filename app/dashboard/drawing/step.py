"""Draw a step: time to the right, a row for each rank, solid where it works and pale where it waits."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.step import RankTime, StepChart
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import WIDTH, label_every, line, picture, rect, rects, row_height, text
from emplace.app.dashboard.units import time_unit

_LABEL, _VALUE, _HEAD, _FOOT = 84, 128, 44, 26
_TRACK = WIDTH - _LABEL - _VALUE
_CHARACTER = 6.6
"""Width of one at the size of labels, about."""


@remembered
def draw_step(chart: StepChart) -> Markup:
    height, gap = row_height(len(chart.ranks))
    bottom = _HEAD + len(chart.ranks) * (height + gap)
    parts = [*_head(chart), *_stages(chart, bottom), *_ranks(chart), *_bound(chart, bottom)]
    return picture("A predicted step: each stage lasts until its slowest rank is done", bottom + _FOOT, parts, kind="step")


def _at(chart: StepChart, time_us: float) -> float:
    return _LABEL + _TRACK * time_us / (chart.step_us or 1.0)


def _head(chart: StepChart) -> Iterator[str]:
    """The stages by name and length, where there is room."""
    unit = time_unit([chart.step_us])
    yield text(_LABEL - 8, 14, "all ranks", anchor="end")
    for span in chart.spans:
        left, right = _at(chart, span.start_us), _at(chart, span.end_us)
        slowest = "" if span.slowest is None else f", until rank {span.slowest} is done"
        yield rect((left, 4, right - left, 20), f"segment {span.key}", f"{span.title}: {unit.show(span.length_us)}{slowest}")
        for words in (f"{span.title} {unit.number(span.length_us)}", span.title, unit.number(span.length_us)):
            if len(words) * _CHARACTER < right - left:
                yield text((left + right) / 2, 33, words, "value", "middle")
                break
    yield text(_LABEL + _TRACK + 8, 14, f"{unit.show(chart.step_us)} a step", "strong")
    yield text(_LABEL + _TRACK + 8, 33, "own work", "value")


def _stages(chart: StepChart, bottom: float) -> Iterator[str]:
    """Pale from top to bottom, and over it what ranks work."""
    height, gap = row_height(len(chart.ranks))
    for index, span in enumerate(chart.spans):
        left = _at(chart, span.start_us)
        yield rect((left, _HEAD, _at(chart, span.end_us) - left, bottom - _HEAD - gap), f"segment wait {span.key}")
        if span.slowest is not None:
            scale = _TRACK / (chart.step_us or 1.0)
            rows = ((left, _HEAD + row * (height + gap), scale * rank.work_us[index], height) for row, rank in enumerate(chart.ranks))
            yield rects(rows, f"segment work {span.key}")


def _ranks(chart: StepChart) -> Iterator[str]:
    height, gap = row_height(len(chart.ranks))
    every, unit = label_every(len(chart.ranks)), time_unit([chart.step_us])
    for row, rank in enumerate(chart.ranks):
        top = _HEAD + row * (height + gap)
        yield rect((_LABEL, top - gap / 2, _TRACK, height + gap), "over", _tip(chart, rank))
        if row % every == 0:
            yield text(_LABEL - 8, top + height / 2, rank.label, anchor="end")
            yield text(_LABEL + _TRACK + 8, top + height / 2, unit.show(rank.own_us), "value")


def _tip(chart: StepChart, rank: RankTime) -> str:
    unit = time_unit([chart.step_us])
    spans = zip(chart.spans, rank.work_us, strict=False)
    stages = [f"{span.title} {unit.number(work)} of {unit.number(span.length_us)}" for span, work in spans]
    return "\n".join([f"{rank.label}: works {unit.show(rank.own_us)}, waits {unit.show(rank.waits_us)}", *stages])


def _bound(chart: StepChart, bottom: float) -> Iterator[str]:
    if chart.bound_us is None:
        return
    at = _at(chart, chart.bound_us)
    words = f"no plan is faster than {time_unit([chart.step_us]).show(chart.bound_us)}"
    yield line(at, _HEAD - 4, at, bottom + 4, "bound")
    fits_left = len(words) * _CHARACTER < at
    yield text(at, bottom + 14, words, "strong", "end" if fits_left else "start")
