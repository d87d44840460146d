"""A small asynchronous fleet that was trained, as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import percent
from emplace.app.reports.sweep_text import short
from emplace.app.reports.tables import facts, plain_table, section
from emplace.executor.asynchronous.job import Role
from emplace.executor.asynchronous.measured import FleetMeasurement, FleetStaleness
from emplace.studies.fleet_prediction import Bottleneck
from emplace.studies.fleet_run import FleetRun

_DISTURBED = (
    "Nothing was as busy as predicted: other programs had the cores, so the throughputs can't be compared. Train again on a quiet machine."
)


def fleet_run_view(run: FleetRun) -> RenderableType:
    """Throughput predicted beside measured, then how well was learnt, and from how stale a model."""
    parts: list[RenderableType] = [
        Text(fleet_run_headline(run), style="bold"),
        Text(""),
        section("predicted beside measured", _loads(run)),
        section("processor time of a round, one thread alone", facts(_costs(run.alone))),
        section("normalised entropy", _quality(run)),
    ]
    if (stale := run.asynchronous.staleness) is not None:
        parts.append(section("updates of others between a read and its update", _staleness(stale)))
    if run.was_disturbed:
        parts.append(Text(_DISTURBED))
    return Group(*parts)


def fleet_run_headline(run: FleetRun) -> str:
    settings = run.settings
    size = f"{settings.trainers} x {settings.threads} threads, {settings.sparse_servers} + {settings.dense_servers} servers on {run.cores} cores"
    return f"{size}: {short(run.measured.throughput_examples_per_s)} examples/s, limited by {_words(run.measured.limiting)}"


def _loads(run: FleetRun) -> RenderableType:
    table = plain_table("", "predicted", "measured")
    both = run.predicted, run.measured
    table.add_row("examples/s", *(short(each.throughput_examples_per_s) for each in both))
    for limit in Bottleneck:
        table.add_row(f"{_words(limit)} busy", *(percent(each.utilisation[limit]) for each in both))
    table.add_row("limited by", *(_words(each.limiting) for each in both))
    return table


def _costs(alone: FleetMeasurement) -> list[tuple[str, str]]:
    """Each process of each role that there is."""
    shown = {role: ", ".join(f"{cost_us:,.0f} us" for cost_us in alone.cpu_us(role)) for role in Role}
    return [(_words(role), each) for role, each in shown.items() if each]


def _quality(run: FleetRun) -> RenderableType:
    table = plain_table("", "held out", "best possible", "while training")
    for name, measured in (("asynchronous", run.asynchronous), ("synchronous", run.synchronous)):
        if measured is not None:
            quality = measured.quality
            table.add_row(name, f"{quality.normalised_entropy:.4f}", f"{quality.best_normalised_entropy:.4f}", _curve(measured))
    return table


def _curve(measured: FleetMeasurement) -> str:
    """Five points of the curve."""
    points = measured.curve[:: max(1, len(measured.curve) // 5)]
    return "  ".join(f"{point.normalised_entropy:.3f}" for point in points)


def _staleness(stale: FleetStaleness) -> RenderableType:
    table = plain_table("", "mean", "most")
    for name, each in (
        ("rows of a sparse server", stale.rows),
        ("dense parameters of a trainer", stale.parameters),
        ("centre, between a trainer's averages", stale.centre),
    ):
        table.add_row(name, f"{each.mean:.2f}", str(each.most))
    return table


def _words(name: str) -> str:
    return name.replace("_", " ")
