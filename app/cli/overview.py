"""`emplace overview`: many jobs at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.cli.remote import overview_of_server
from emplace.app.reports.overview_text import overview_view
from emplace.extras import require_extra
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.studies.job_lines import overview_of_file
from emplace.studies.overview import Overview


def overview(
    jobs: Annotated[
        Path | None,
        typer.Argument(metavar="[JOBS.jsonl]", help="Jobs of your own, a JSON object a line. Without it: the service's plans and runs."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="The plans and runs of this Emplace service, not those of EMPLACE_DATABASE_URL."),
    ] = None,
    format: options.Format = OutputFormat.TEXT,
    out: options.Out = None,
) -> None:
    """Show how utilisation, servers, hash sizes, feature lengths and prediction errors are distributed over many jobs.

    Each job weighs the same; what a job does not say is not counted. Jobs are the stored plans that have a placement, and
    measurements the stored runs; or both are what each line of JOBS.jsonl says.
    """
    found = _overview(jobs, server)
    give(found, overview_view(found), format, out)


def _overview(jobs: Path | None, server: str | None) -> Overview:
    if jobs is not None and server is not None:
        raise InvalidDocument("--server", [BrokenRule("", "", "has jobs of its own: leave out the URL or the file")])
    if jobs is not None:
        return overview_of_file(jobs)
    return _of_database() if server is None else overview_of_server(server)


def _of_database() -> Overview:
    require_extra("serve")
    from emplace.app.database.connection import Database
    from emplace.app.database.migrate import migrate
    from emplace.app.database.plan_facts import overview_of_store
    from emplace.app.settings import Settings

    database = Database(Settings.from_environment().database_url)
    try:
        migrate(database)
        with database.reading() as session:
            return overview_of_store(session)
    finally:
        database.close()
