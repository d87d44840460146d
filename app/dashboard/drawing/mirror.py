"""Draw two plans back to back: ranks in the middle, one plan's bars to the left, the other's to the right."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.mirror import Mirror, Pair
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import WIDTH, label_every, picture, rect, row_height, text
from emplace.app.dashboard.units import Unit, unit_of

_VALUE, _LABEL, _HEAD = 96, 96, 26
_SIDE = (WIDTH - 2 * _VALUE - _LABEL) / 2
_CENTRE = WIDTH / 2


@remembered
def draw_mirror(chart: Mirror) -> Markup:
    height, gap = row_height(len(chart.pairs))
    every = label_every(len(chart.pairs))
    unit = unit_of(chart.kind, [chart.scale])
    parts = [
        text(_CENTRE - _LABEL / 2, 10, chart.left, "strong", "end"),
        text(_CENTRE + _LABEL / 2, 10, chart.right, "strong"),
    ]
    for row, pair in enumerate(chart.pairs):
        parts += _pair(pair, chart.scale, (_HEAD + row * (height + gap), height), unit, labelled=row % every == 0)
    return picture(f"{chart.title}: {chart.left} and {chart.right}", _HEAD + len(chart.pairs) * (height + gap), parts, kind="mirror")


def _pair(pair: Pair, scale: float, place: tuple[float, float], unit: Unit, *, labelled: bool) -> Iterator[str]:
    top, height = place
    middle = top + height / 2
    tip = f"{pair.label}: {unit.show(pair.left)} and {unit.show(pair.right)}"
    left, right = _SIDE * (pair.left or 0.0) / scale, _SIDE * (pair.right or 0.0) / scale
    yield rect((_CENTRE - _LABEL / 2 - left, top, left, height), "segment before", tip)
    yield rect((_CENTRE + _LABEL / 2, top, right, height), "segment after", tip)
    if labelled:
        yield text(_CENTRE, middle, pair.label, "label", "middle")
        yield text(_CENTRE - _LABEL / 2 - left - 6, middle, unit.show(pair.left), "value", "end")
        yield text(_CENTRE + _LABEL / 2 + right + 6, middle, unit.show(pair.right), "value")
