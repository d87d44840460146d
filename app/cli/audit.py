"""`emplace audit`: check a plan without the solver."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli.options import Format, OutputFormat, read_plan
from emplace.app.cli.output import as_json, print_text


def audit(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="What 'emplace plan --format json' wrote.")],
    format: Format = OutputFormat.TEXT,
) -> int:
    """Re-derive coverage, capacity and times of a plan; name every violation.

    Exit code: 0 sound, 1 violated, 2 not a plan.
    """
    from emplace.placement.audit import audit as violations_of

    found = read_plan(plan)
    violations = violations_of(found)
    if format is OutputFormat.JSON:
        print_text(
            as_json({"plan": str(plan), "sound": not violations, "violations": [{"where": v.where, "what": v.what} for v in violations]})
        )
    elif violations:
        print_text("".join(f"{violation.where}: {violation.what}\n" for violation in violations))
        print_text(f"{plan}: {len(violations)} violation{'s' if len(violations) != 1 else ''}\n")
    else:
        what = (
            f"{len(found.tables)} tables on {len(found.ranks)} ranks" if found.has_placement else f"{found.status}, no placement to audit"
        )
        print_text(f"{plan}: sound ({what})\n")
    return 1 if violations else 0
