"""Bring the database to this version: our tables by Alembic, the job queue's by DBOS."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from emplace import migrations
from emplace.app.database.connection import Database
from emplace.app.database.tables import Base
from emplace.placement.errors import ToolError

_LOCK = 0x656D706C
"""PostgreSQL's advisory lock that one migrating process holds."""


def migrate(database: Database) -> None:
    """Apply what is missing; several processes may start at once. Raises ToolError when the database can't be reached."""
    from dbos import DBOS

    try:
        with database.writing() as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            command.upgrade(alembic_config(connection), "head")
        DBOS.migrate(database.url)
    except DBAPIError as error:
        raise ToolError(f"the database {database.engine.url!r} can't be used: {error.orig}") from None


def alembic_config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    config.attributes["metadata"] = Base.metadata
    return config
