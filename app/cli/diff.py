"""`emplace diff`: what changed between two plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli.inputs import read_plan
from emplace.app.cli.options import Format, OutputFormat
from emplace.app.cli.output import give
from emplace.app.diff import diff_plans
from emplace.app.reports.diff_text import diff_view
from emplace.placement.plan import Plan


def diff(
    before: Annotated[Path, typer.Argument(metavar="A.json")],
    after: Annotated[Path, typer.Argument(metavar="B.json")],
    format: Format = OutputFormat.TEXT,
) -> None:
    """Show what changed from plan A to plan B: the question, the placement, bytes to move, predicted time."""
    change = diff_plans(_whole(before), _whole(after))
    give(change, diff_view(change), format)


def _whole(path: Path) -> Plan:
    """A plan whose tables and ranks are those of its question. Raises InvalidDocument."""
    from emplace.placement.audit import refuse, structural_violations

    plan = read_plan(path)
    refuse(str(path), structural_violations(plan))
    return plan
