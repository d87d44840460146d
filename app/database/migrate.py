"""Bring the database to this version: our tables by Alembic, the job queue's by DBOS."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from emplace import migrations
from emplace.app.database.connection import Database, shown_url
from emplace.app.database.plan_facts import fill_in
from emplace.app.database.tables import Base
from emplace.placement.errors import ToolError

_MIGRATIONS = str(Path(migrations.__file__).parent)
_LOCK = 0x656D706C
"""PostgreSQL's advisory lock that one migrating process holds."""


def migrate(database: Database) -> None:
    """Apply what is missing; several processes may start at once.

    Raises ToolError when the database can't be reached, or a newer version has changed its tables.
    """
    from dbos import DBOS

    try:
        with database.writing() as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET LOCAL lock_timeout = 0"))  # as long as another migrates
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            refuse_newer(connection)
            before = MigrationContext.configure(connection).get_current_revision()
            command.upgrade(alembic_config(connection), "head")
            if before != _known_revisions()[0]:
                fill_in(session)
        DBOS.migrate(database.url)
    except DBAPIError as error:
        raise ToolError(f"the database {shown_url(database.engine.url)} can't be used: {error.orig}") from None


def revisions(database: Database) -> tuple[str | None, str | None]:
    """The version of the database's tables, None where it has none, and the newest one that this program knows; changes nothing.

    Raises ToolError when the database can't be reached, or a newer version has changed its tables.
    """
    try:
        with database.reading() as session:
            connection = session.connection()
            refuse_newer(connection)
            return MigrationContext.configure(connection).get_current_revision(), _known_revisions()[0]
    except DBAPIError as error:
        raise ToolError(f"the database {shown_url(database.engine.url)} can't be used: {error.orig}") from None


def refuse_newer(connection: Connection) -> None:
    """Raises ToolError for tables of a version that this program does not have."""
    known = _known_revisions()
    for found in MigrationContext.configure(connection).get_current_heads():
        if found not in known:
            raise ToolError(
                f"the database {shown_url(connection.engine.url)} belongs to a newer Emplace: its tables are of version {found}, and this program "
                f"knows those up to {known[0]}. Update Emplace, or use another database (EMPLACE_DATABASE_URL)"
            )


@cache
def _known_revisions() -> tuple[str, ...]:
    """Those of this program, newest first. Files are read once: workers ask at every beat, and a newer version may replace them."""
    return tuple(script.revision for script in ScriptDirectory(_MIGRATIONS).walk_revisions())


def alembic_config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", _MIGRATIONS)
    config.attributes["connection"] = connection
    config.attributes["metadata"] = Base.metadata
    return config
