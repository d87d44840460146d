"""Draw how a solve closed: the best plan above, the proven bound below, over time."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.search import SearchChart
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import WIDTH, line, picture, steps, text
from emplace.app.dashboard.units import Unit, time_unit

_LEFT, _RIGHT, _TOP, _HEIGHT, _FOOT = 84, 150, 12, 180, 26
_TRACK = WIDTH - _LEFT - _RIGHT
_TICKS = 4


@remembered
def draw_search(chart: SearchChart) -> Markup:
    parts = [*_axes(chart), *_curves(chart)]
    return picture("The best plan found and the proven bound, over the time of the solve", _TOP + _HEIGHT + _FOOT, parts, kind="search")


def _x(chart: SearchChart, elapsed_s: float) -> float:
    return _LEFT + _TRACK * elapsed_s / chart.end_s


def _y(chart: SearchChart, time_us: float) -> float:
    share = (min(time_us, chart.high_us) - chart.low_us) / (chart.high_us - chart.low_us)
    return _TOP + _HEIGHT * (1 - max(0.0, share))


def _axes(chart: SearchChart) -> Iterator[str]:
    unit = _unit(chart)
    for tick in range(_TICKS + 1):
        value = chart.low_us + (chart.high_us - chart.low_us) * tick / _TICKS
        yield line(_LEFT, _y(chart, value), _LEFT + _TRACK, _y(chart, value), "grid")
        yield text(_LEFT - 8, _y(chart, value), unit.show(value), "value", "end")
        yield text(_x(chart, chart.end_s * tick / _TICKS), _TOP + _HEIGHT + 14, f"{chart.end_s * tick / _TICKS:.1f} s", "value", "middle")


def _curves(chart: SearchChart) -> Iterator[str]:
    best = [(_x(chart, each.elapsed_s), _y(chart, each.best_us)) for each in chart.moments if each.best_us is not None]
    bound = [(_x(chart, each.elapsed_s), _y(chart, each.bound_us)) for each in chart.moments]
    yield steps(bound, "curve bound")
    yield steps(best, "curve best")
    last, unit = chart.moments[-1], _unit(chart)
    ends = [(bound[-1][1], f"bound {unit.show(last.bound_us)}")]
    if best and last.best_us is not None:
        ends.append((best[-1][1], f"best {unit.show(last.best_us)}"))
    apart = len(ends) == 2 and abs(ends[0][0] - ends[1][0]) < 15
    for index, (y, words) in enumerate(ends):
        shifted = y + (8 if index == 0 else -8) if apart else y
        yield text(_LEFT + _TRACK + 8, min(max(shifted, 8), _TOP + _HEIGHT + 4), words, "strong")


def _unit(chart: SearchChart) -> Unit:
    return time_unit([chart.high_us])
