"""Draw tables against ranks: the darker a cell, the more of the table is there."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.heat_map import LEVELS, HeatMap
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import WIDTH, picture, rect, rects, text
from emplace.app.dashboard.units import Unit, unit_of

_LABEL, _VALUE, _SUMS, _HEAD = 190, 110, 46, 68
_TRACK = WIDTH - _LABEL - _VALUE
_NAME = 26
"""Characters of a table's name that fit beside it."""


@remembered
def draw_heat_map(chart: HeatMap) -> Markup:
    height = 14.0 if len(chart.rows) <= 60 else 12.0
    unit = unit_of(chart.kind, [row.total for row in chart.rows])
    parts = [*_sums(chart), *_cells(chart, height), *_rows(chart, height, unit)]
    return picture(f"{chart.what} of each table on each rank", _HEAD + len(chart.rows) * height + 4, parts, kind="heat")


def _sums(chart: HeatMap) -> Iterator[str]:
    """What each rank has of all tables, as columns above the map."""
    width, most = _TRACK / chart.ranks, max(chart.sums, default=0.0) or 1.0
    unit = unit_of(chart.kind, chart.sums)
    yield text(_LABEL - 8, _SUMS - 8, "all tables", anchor="end")
    yield text(_LABEL + _TRACK + 8, 8, f"{unit.show(most)} most", "value")
    for rank, amount in enumerate(chart.sums):
        box = (_LABEL + rank * width, 2 + (_SUMS - 2) * (1 - amount / most), width * 0.9, (_SUMS - 2) * amount / most)
        yield rect(box, "segment sum", f"rank {rank}: {unit.show(amount)}")
    every = max(1, -(-chart.ranks // max(1, int(_TRACK / 26))))
    for rank in range(0, chart.ranks, every):
        yield text(_LABEL + (rank + 0.5) * width, _HEAD - 10, str(rank), "value", "middle")


def _cells(chart: HeatMap, height: float) -> Iterator[str]:
    width = _TRACK / chart.ranks
    yield rect((_LABEL, _HEAD, _TRACK, len(chart.rows) * height), "track")
    for level in range(1, LEVELS + 1):
        boxes = (
            (_LABEL + run.first * width, _HEAD + row * height, run.ranks * width - 0.4, height - 1)
            for row, each in enumerate(chart.rows)
            for run in each.runs
            if run.level == level
        )
        yield rects(boxes, f"heat-{level}")


def _rows(chart: HeatMap, height: float, unit: Unit) -> Iterator[str]:
    for index, row in enumerate(chart.rows):
        top = _HEAD + index * height
        most = ", ".join(f"rank {rank} {unit.show(amount)}" for rank, amount in row.most)
        yield rect((_LABEL, top, _TRACK, height), "over", f"{row.name}: {unit.show(row.total)}; most of it on {most}")
        name = row.name if len(row.name) <= _NAME else f"{row.name[: _NAME - 1]}…"
        yield text(_LABEL - 8, top + height / 2, name, anchor="end")
        yield text(_LABEL + _TRACK + 8, top + height / 2, unit.show(row.total), "value")
