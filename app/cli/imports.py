"""`emplace import`: a TorchRec plan made elsewhere becomes a plan document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options
from emplace.app.cli.inputs import plan_options, read_cost_model, read_model
from emplace.app.cli.options import Format, Out, OutputFormat
from emplace.app.cli.output import give, note
from emplace.app.reports.plan_text import plan_view
from emplace.placement.audit import audit
from emplace.placement.reading import read_file
from emplace.planning import resolve_host


def import_torchrec(
    plan: Annotated[Path, typer.Argument(metavar="TORCHREC_PLAN", help="A TorchRec ShardingPlan as JSON (docs/how-to/torchrec.md).")],
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="A built-in model or a model file: what the plan places.")],
    host: options.Host,
    nodes: options.Nodes = None,
    ranks: options.Ranks = None,
    cost_model: options.CostModelFile = None,
    format: Format = OutputFormat.TEXT,
    out: Out = None,
) -> int:
    """Price a TorchRec plan that was made elsewhere, and prove how far it is from the best at most.

    --out writes it as a plan to audit, diff and run. Exit code: 0 sound, 1 it needs more memory than HOST has, 2 not a plan
    that can run.
    """
    # Here, so that no other command imports the solver to start.
    from emplace.app.importing import import_plan
    from emplace.executor.imported import TheirPlan

    chosen = plan_options(nodes=nodes, ranks=ranks)
    theirs = read_file(plan, TheirPlan)
    found = import_plan(theirs, str(plan), read_model(model), resolve_host(host), chosen, read_cost_model(cost_model))
    give(found, plan_view(found, out), format, out)
    violations = audit(found)
    for violation in violations:
        note(f"emplace: {plan}: {violation}")
    return 1 if violations else 0
