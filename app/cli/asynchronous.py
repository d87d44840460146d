"""`emplace asynchronous`: a small fleet trained here."""

from __future__ import annotations

import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emplace.app.cli.figures import refuse_png
from emplace.app.cli.options import Out, OutputFormat
from emplace.app.cli.output import give, give_text, note, save
from emplace.extras import require_extra

if TYPE_CHECKING:
    from emplace.studies.fleet_run import FleetRun


class FleetFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    SVG = "svg"
    PNG = "png"


def asynchronous(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...", help="What to train and how, such as trainers=2 threads=2 tau=16 mlp=256^2.", show_default=False
        ),
    ] = None,
    baseline: Annotated[bool, typer.Option("--baseline/--no-baseline", help="Train synchronously too, to compare quality.")] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="Give up on each training after this long.")
    ] = 600.0,
    format: Annotated[
        FleetFormat, typer.Option("--format", help="What to print, and to write to --out; svg and png draw the loss.")
    ] = FleetFormat.TEXT,
    out: Out = None,
) -> int:
    """Train a small asynchronous fleet on this machine: throughput beside the queueing model's, loss, staleness, quality.

    Trainers with Hogwild threads, sparse and dense parameter servers are processes here. They learn a click task whose best predictions
    are known. Exit code: 0 trained, 2 it could not be.
    """
    from emplace.executor.asynchronous.settings import fleet_settings

    asked = fleet_settings(settings or [])
    if format is FleetFormat.PNG:
        refuse_png(out)
    require_extra("execute")
    from emplace.executor.asynchronous.run import FleetLaunch
    from emplace.studies.fleet_run import run_study

    _report(run_study(asked, FleetLaunch(Path(tempfile.gettempdir()), timeout, note), baseline=baseline), format, out)
    return 0


def _report(found: FleetRun, format: FleetFormat, out: Path | None) -> None:
    from emplace.app.reports.asynchronous_text import fleet_run_view
    from emplace.app.reports.loss_svg import loss_svg
    from emplace.app.reports.png import png_of

    match format:
        case FleetFormat.PNG:
            save(out, png_of(loss_svg(found)))
        case FleetFormat.SVG:
            give_text(loss_svg(found), out)
        case _:
            give(found, fleet_run_view(found), OutputFormat(format), out)
