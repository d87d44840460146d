"""`emplace sweep`: what-if grids."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options, studying
from emplace.app.cli.figures import refuse_png
from emplace.app.cli.inputs import plan_options
from emplace.app.cli.output import as_json, note, print_text, save, saved_too, show
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.png import png_of
from emplace.app.reports.sweep_csv import sweep_csv
from emplace.app.reports.sweep_svg import sweep_svg
from emplace.app.reports.sweep_text import sweep_view
from emplace.extras import require_extra
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.studies.measuring import run_measured
from emplace.studies.sweep import STUDY_GAP, Sweep, SweepStudy, axes_of, pair_of, refuse_varied, run_sweep


class SweepFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    SVG = "svg"
    PNG = "png"


def sweep(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A built-in model, the template 'suite', or a model file.")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary", metavar="PATH=VALUES", help="What to vary: /local_batch_size=512,1024, --nodes=1,2, or multiples as x2; repeat it."
        ),
    ] = None,
    settings: options.Settings = None,
    host: studying.OneHost = None,
    hosts: studying.Hosts = None,
    nodes: options.Nodes = None,
    ranks: options.Ranks = None,
    tiers: options.Tiers = None,
    pareto: Annotated[
        list[str] | None,
        typer.Option("--pareto", metavar="A,B", help="A Pareto front over two figures, such as throughput,power; repeat it."),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Train under the plan of every point on this machine too: predicted beside measured.")
    ] = False,
    steps: options.Steps = None,
    work_limit: options.WorkLimit = None,
    gap: studying.Gap = None,
    seed: options.Seed = None,
    stack: options.StackName = None,
    processes: studying.Processes = None,
    format: Annotated[SweepFormat, typer.Option("--format", help="What to print, and to write to --out.")] = SweepFormat.TEXT,
    out: options.Out = None,
) -> int:
    """Plan MODEL anew at every point of a grid over hosts and values.

    PATH is a JSON pointer into the template's settings, the model or the host (* is each item of a list), or an option of
    'emplace plan'. Every point has the best plan, what limits it and what it takes; beside them Pareto fronts, and where one
    host overtakes another. Exit code: 0 done, 1 proven that MODEL fits at no point, 3 some point is undecided within the limit.
    """
    chosen = plan_options(nodes=nodes, ranks=ranks, tiers=tiers, work_limit=work_limit, seed=seed, gap=STUDY_GAP if gap is None else gap)
    setting = studying.setting_of(model, settings, chosen, stack)
    axes = axes_of(vary or [], of_template=not hasattr(setting.model, "tables"))
    given = {"nodes": nodes, "ranks": ranks, "tiers": tiers, "work_limit": work_limit, "gap": gap, "seed": seed}
    refuse_varied(axes, given, settings or [])
    _refuse_format(format, len(axes), out)
    if steps is not None and not run:
        raise InvalidDocument("--steps", [BrokenRule("", str(steps), "is for points that are trained: give --run too")])
    if run:
        require_extra("execute")
    study = SweepStudy.of(setting, studying.read_hosts(host, hosts), axes, [pair_of(each) for each in pareto or []])
    with StatusLine() as status:
        told = studying.Counted(status, "points")
        if run:
            found = run_measured(study, steps, studying.cores(processes), told, note)
        else:
            found = run_sweep(study, studying.cores(processes), told)
    _report(found, format, out)
    return studying.exit_code(found.statuses)


def _refuse_format(format: SweepFormat, axes: int, out: Path | None) -> None:
    if format not in (SweepFormat.SVG, SweepFormat.PNG):
        return
    if axes != 1:
        raise InvalidDocument("--format", [BrokenRule("", str(format), "draws one axis: give one --vary")])
    if format is SweepFormat.PNG:
        refuse_png(out)


def _report(found: Sweep, format: SweepFormat, out: Path | None) -> None:
    if format is SweepFormat.PNG:
        save(out, png_of(sweep_svg(found)))
        return
    writers = {SweepFormat.CSV: sweep_csv, SweepFormat.SVG: sweep_svg}
    text = writers[format](found) if format in writers else as_json(found.to_data())
    with saved_too(out, text):
        if format is SweepFormat.TEXT:
            show(sweep_view(found))
        else:
            print_text(text)
