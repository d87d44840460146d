"""A sweep as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import count, microseconds, percent
from emplace.app.reports.tables import plain_table, section
from emplace.studies.comparing import Crossover, Front
from emplace.studies.figures import Figures
from emplace.studies.measured import PredictionError
from emplace.studies.power import Running
from emplace.studies.sweep import Sweep, SweepPoint

_MOST_ROWS = 200


def sweep_view(sweep: Sweep) -> RenderableType:
    """Every point, then what they say beside each other."""
    parts: list[RenderableType] = [Text(sweep_headline(sweep), style="bold"), Text(""), _points(sweep)]
    if sweep.crossovers:
        parts.append(section("where another host becomes the better one", Text("\n".join(map(crossover_line, sweep.crossovers)))))
    if sweep.prediction_error is not None:
        parts.append(section("predicted beside measured", _measured(sweep, sweep.prediction_error)))
    parts += [section(front_title(front), _front(sweep, front)) for front in sweep.fronts]
    parts += [Text(note) for note in sweep.notes]
    return Group(*parts)


def sweep_headline(sweep: Sweep) -> str:
    return f"{sweep.model}: {count(len(sweep.points), 'point')} on {count(len(sweep.hosts), 'host')}"


def _points(sweep: Sweep) -> RenderableType:
    heads, rows = sweep_rows(sweep)
    table = plain_table(*heads)
    for row in rows[:_MOST_ROWS]:
        table.add_row(*row)
    more = len(sweep.points) - _MOST_ROWS
    title = "points" if more <= 0 else f"points (the first {_MOST_ROWS}; --format csv has all)"
    return section(f"{title}; of what a step gains most by: percent of throughput for each percent more", table)


def _measured(sweep: Sweep, error: PredictionError) -> RenderableType:
    table = plain_table("host", *(axis.path for axis in sweep.axes), "predicted", "measured", "predicted / measured", "machine", "verified")
    for point in sweep.points:
        if (measured := point.measured) is None:
            continue
        slowness = "" if measured.slowness is None else f"{measured.slowness - 1:+.0%}"
        figures = [microseconds(measured.step_time_us * measured.predicted_over_measured), microseconds(measured.step_time_us)]
        figures += [f"{measured.predicted_over_measured:.2f}", slowness, "yes" if measured.verified else "no"]
        table.add_row(point.host, *_values(point), *figures)
    return Group(table, Text(error_line(error)))


def error_line(error: PredictionError) -> str:
    known = "" if error.at_present_speed == error.geometric_mean else f" ({error.at_present_speed:.1%} at the machine's present speed)"
    failed = f"; {error.not_verified} not verified" if error.not_verified else ""
    return f"geometric mean error {error.geometric_mean:.1%}{known}, worst {error.worst:.1%}, of {count(error.points, 'point')}{failed}"


def sweep_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Heads of columns, and the points."""
    figures = ["examples/s", "range", "gap", "most of a step", "gains most by", "servers", "W"]
    heads = ["host", *(axis.path for axis in sweep.axes), *figures]
    return heads, [[point.host, *_values(point), *_cells(point.figures)] for point in sweep.points]


def _values(point: SweepPoint) -> Iterator[str]:
    return map(spelled, point.values.values())


def _cells(figures: Figures) -> list[str]:
    if figures.throughput is None:
        return ["does not fit" if figures.status == "infeasible" else str(figures.status), *[""] * 6]
    binds, gain = figures.binds, next(iter(figures.elasticities), None)
    return [
        short(figures.throughput),
        span(figures.throughput_range),
        percent(figures.gap),
        f"{binds.stage} {binds.share:.0%}" if binds else "",
        f"{gain.resource.split(' of ')[0]} {gain.percent:.2f}" if gain else "-",
        *running_cells(figures.running)[:2],
    ]


def running_cells(running: Running | None) -> list[str]:
    """Servers, watts, and the price of an hour, where they are known."""
    power_w, price = (running.power_w, running.price_per_hour) if running else (None, None)
    return [
        "-" if running is None else f"{running.servers:,}",
        "-" if power_w is None else f"{power_w:,.0f}",
        "-" if price is None else f"{price:,.2f}",
    ]


def short(figure: float) -> str:
    """Three digits and a letter: `54.1k`, `2.56M`; `812` below a thousand."""
    shown = float(f"{figure:.3g}")
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if shown >= factor:
            return f"{shown / factor:#.3g}".removesuffix(".") + letter
    return f"{figure:.3g}"


def span(range_: tuple[float, float] | None) -> str:
    """`12.3k-45.6k`."""
    return "" if range_ is None else f"{short(range_[0])}-{short(range_[1])}"


def spelled(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def crossover_line(found: Crossover) -> str:
    where = f"between {spelled(found.between[0])} and {spelled(found.between[1])}"
    at = "" if found.at is None else f", at about {found.at:,.4g}"
    others = "".join(f", {path} {spelled(value)}" for path, value in found.others.items())
    sure = "" if found.sure else "; not sure: the ranges of a step overlap"
    return f"{found.quantity}: {found.below} below, {found.above} above {found.path} {where}{at}{others}{sure}"


def front_title(front: Front) -> str:
    return f"Pareto front of {front.over[0]} and {front.over[1]}"


def front_rows(sweep: Sweep, front: Front) -> tuple[list[str], list[list[str]]]:
    """Heads of columns, and the points that no other beats in both figures."""
    heads = ["host", *(axis.path for axis in sweep.axes), "examples/s", "servers", "W", "an hour"]
    points = [sweep.points[number] for number in front.points]
    return heads, [
        [point.host, *_values(point), short(point.figures.throughput or 0.0), *running_cells(point.figures.running)] for point in points
    ]


def _front(sweep: Sweep, front: Front) -> RenderableType:
    heads, rows = front_rows(sweep, front)
    table = plain_table(*heads)
    for row in rows:
        table.add_row(*row)
    return table
