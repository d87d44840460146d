"""`emplace audit`: check a plan without the solver."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli.inputs import read_plan
from emplace.app.cli.options import Format, OutputFormat
from emplace.app.cli.output import as_json, print_text
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import PlanStatus

OPEN = 3
"""Exit code where a proof holds, but not for what the plan says: that there is no placement."""


def audit(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="What 'emplace plan --format json' wrote.")],
    proof: Annotated[bool, typer.Option("--proof", help="Verify the proof that the plan carries, too.")] = False,
    format: Format = OutputFormat.TEXT,
) -> int:
    """Re-derive coverage, capacity and times of a plan; name every violation.

    With --proof its proof is verified where it is sound. Exit code: 0 sound, 1 violated, 2 not a plan or one without a
    proof, 3 it says that nothing fits, and its proof holds but shows only a lower bound.
    """
    from emplace.app.reports.proof_text import proof_data, proof_lines
    from emplace.placement.audit import audit as violations_of
    from emplace.placement.proof.verify import verify

    found = read_plan(plan)
    if proof and found.proof is None:
        raise InvalidDocument(str(plan), [BrokenRule("/proof", "", "is missing: plan again with 'emplace plan --proof'")])
    violations = violations_of(found)
    proven = verify(found) if proof and not violations else None
    violations += proven.violations if proven else ()
    if format is OutputFormat.JSON:
        data = {"plan": str(plan), "sound": not violations, "violations": [{"where": v.where, "what": v.what} for v in violations]}
        print_text(as_json(data | ({"proof": proof_data(found, proven)} if proven else {})))
    elif violations:
        print_text("".join(f"{violation.where}: {violation.what}\n" for violation in violations))
        print_text(f"{plan}: {len(violations)} violation{'s' if len(violations) != 1 else ''}\n")
    else:
        what = (
            f"{len(found.tables)} tables on {len(found.ranks)} ranks" if found.has_placement else f"{found.status}, no placement to audit"
        )
        print_text(f"{plan}: sound ({what})\n" + "".join(f"{line}\n" for line in (proof_lines(found, proven) if proven else ())))
    is_open = proven is not None and found.status is PlanStatus.INFEASIBLE and not proven.shows(found)
    return 1 if violations else OPEN if is_open else 0
