"""`emplace size --fleet`: several jobs, and the hosts in stock."""

from __future__ import annotations

from pathlib import Path

from emplace.app.cli import studying
from emplace.app.cli.exit_codes import PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.fleet_text import fleet_view
from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import PlanOptions
from emplace.placement.reading import in_file, read_file
from emplace.placement.stack import Stack
from emplace.studies.fleet import Hogwild
from emplace.studies.fleet_assignment import FleetAssignment, run_fleet
from emplace.studies.fleet_spec import SOURCE, FleetSpec
from emplace.studies.jobs import Wanted


def size_fleet(
    file: Path,
    options: PlanOptions,
    stack: Stack | None,
    objective: Wanted,
    hogwild: Hogwild,
    max_nodes: int,
    processes: int,
    format: OutputFormat,
    out: Path | None,
) -> int:
    """Raises InvalidDocument that names the file and its lines."""
    fleet = read_file(file, FleetSpec)
    try:
        with StatusLine() as status:
            told = studying.Counted(status, "jobs on hosts")
            found = run_fleet(fleet, options, stack, objective, hogwild, max_nodes, processes, told)
    except InvalidDocument as error:
        raise (in_file(error, file) if error.source == SOURCE else error) from None
    give(found, fleet_view(found), format, out)
    return _exit_code(found)


def _exit_code(found: FleetAssignment) -> int:
    if not found.left_over:
        return YES
    return PROVEN_NO if found.is_proven else UNDECIDED
