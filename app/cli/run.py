"""`emplace run`: train under a plan on this host."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli.inputs import read_plan
from emplace.app.cli.options import LARGEST_SEED, Format, Out, OutputFormat, Steps
from emplace.app.cli.output import give, note
from emplace.app.reports.run_text import run_view
from emplace.extras import require_extra
from emplace.placement.errors import BrokenRule, InvalidDocument


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="What 'emplace plan --format json' wrote.")],
    steps: Steps = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Decides the synthetic batches.")] = 0,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Give up after this long.")] = 600.0,
    emulate: Annotated[
        bool, typer.Option("--emulate", help="Run a plan for any host on CPU ranks, scaled down: no claim about time or memory.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Train on these recorded batches (.pt, .parquet, .csv), not drawn ones.")
    ] = None,
    allowed_error: Annotated[
        float | None,
        typer.Option(
            "--allowed-error",
            metavar="SHARE",
            min=0.0,
            help="How far a prediction from measured prices may be off. Default: their own stated error, at most 0.25.",
        ),
    ] = None,
    format: Format = OutputFormat.TEXT,
    out: Out = None,
) -> int:
    """Train under PLAN on this machine, verify what ran, and show predicted beside measured.

    Exit code: 0 verified (with --emulate: all that an emulation can check holds), 1 a verdict failed, 2 it could not be run.
    """
    require_extra("execute")
    from emplace.executor.emulation import emulate_plan
    from emplace.executor.launch import Launch
    from emplace.executor.refusal import refuse_unsound
    from emplace.executor.run import run_plan

    _at_least_one(steps=steps, timeout=timeout)
    found = read_plan(plan)
    refuse_unsound(found, str(plan))
    launch = Launch(steps, seed, Path(tempfile.gettempdir()), timeout, report=note, trace=trace, allowed_error=allowed_error)
    measured = (emulate_plan if emulate else run_plan)(found, launch)
    give(measured, run_view(found, measured), format, out)
    return 1 if measured.status == "not verified" else 0


def _at_least_one(**values: float | None) -> None:
    given = {name: value for name, value in values.items() if value is not None}
    broken = [BrokenRule(f"/{name}", str(value), "must be at least 1") for name, value in given.items() if not value >= 1]
    if broken:
        raise InvalidDocument("options", broken)
