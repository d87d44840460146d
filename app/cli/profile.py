"""`emplace profile`: measure this host."""

from __future__ import annotations

from typing import Annotated

import typer

from emplace.app.cli.options import LARGEST_SEED, Format, Out, OutputFormat
from emplace.app.cli.output import give, note
from emplace.app.reports.profile_text import profile_view
from emplace.extras import require_extra
from emplace.local_store import local_cost_models, unfinished_profiles
from emplace.placement.catalog import LOCAL_HOST
from emplace.placement.cost_model import CostModel
from emplace.planning import resolve_host


def profile(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points: about a minute.")] = False,
    ranks: Annotated[int | None, typer.Option("--ranks", help="Ranks that run side by side. Default: one per device.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=1, help="The best cost model for this much time, instead of a minute or a quarter of an hour."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Decides which points are measured.")] = 0,
    format: Format = OutputFormat.TEXT,
    out: Out = None,
) -> None:
    """Measure this machine's lookups, collectives and dense layers, and keep the cost model for 'emplace plan --host local'."""
    require_extra("execute")
    from emplace.profiler.profile import profile_host

    wanted = resolve_host(LOCAL_HOST).num_devices if ranks is None else ranks

    def keep(model: CostModel) -> None:
        note(f"kept in {local_cost_models().keep(model)}: 'emplace plan MODEL --host local --ranks {wanted}' uses it")

    measured = profile_host(ranks=wanted, quick=quick, seed=seed, report=note, workdir=unfinished_profiles(), seconds=seconds, keep=keep)
    give(measured, profile_view(measured), format, out)
