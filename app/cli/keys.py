"""`emplace keys`: who may ask the service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as TextTable

from emplace.app.cli.options import Format, OutputFormat
from emplace.app.cli.output import as_json, note, print_text, show
from emplace.extras import require_extra
from emplace.placement.errors import ToolError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_MAX_NAME = 200


class KeyAction(StrEnum):
    MAKE = "make"
    LIST = "list"
    REVOKE = "revoke"


class KeyScope(StrEnum):
    """Those of app.database.keys, which a core installation can't import."""

    READ = "read"
    PLAN = "plan"
    RUN = "run"
    ADMIN = "admin"


def keys(
    action: Annotated[KeyAction, typer.Argument(metavar="ACTION", help="make, list or revoke.")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The key that is made or revoked: whose it is, or what for.")] = None,
    scope: Annotated[
        KeyScope, typer.Option("--scope", help="What a new key may do; each scope may do what those before it may.")
    ] = KeyScope.READ,
    format: Format = OutputFormat.TEXT,
) -> None:
    """Make, list or revoke the keys by which the service on the database of EMPLACE_DATABASE_URL knows who asks."""
    require_extra("serve")
    from emplace.app.database import keys as stored
    from emplace.app.database.keys import AccessScope

    if action is KeyAction.LIST:
        _list(name, format)
        return
    with _writing() as session:
        if action is KeyAction.REVOKE:
            stored.revoke(session, _given(name))
            key = None
        else:
            key = stored.make(session, _given(name), AccessScope(scope))
    if key is None:
        note(f"revoked {name}: it counts no more within 5 s")
    elif format is OutputFormat.JSON:
        print_text(as_json({"name": name, "scope": scope, "key": key}))
    else:
        note(f"the key {name}, of scope {scope}; it can't be shown again:")
        print_text(f"{key}\n")


def _list(name: str | None, format: OutputFormat) -> None:
    if name is not None:
        raise ToolError("'emplace keys list' takes no name")
    from emplace.app.database.keys import list_keys

    with _writing() as session:
        rows = [
            {"name": row.name, "scope": row.scope, "made": _shown(row.created_at), "revoked": _shown(row.revoked_at)}
            for row in list_keys(session)
        ]
    if format is OutputFormat.JSON:
        print_text(as_json(rows))
        return
    table = TextTable("name", "scope", "made", "revoked", box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for row in rows:
        table.add_row(*row.values())
    show(table)


def _shown(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


def _given(name: str | None) -> str:
    if name is None or not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
        raise ToolError(f"the key needs a name of at most {_MAX_NAME} printable characters: emplace keys make NAME")
    return name


@contextmanager
def _writing() -> Iterator[Session]:
    """A transaction on the service's database, which is brought up to date first."""
    from emplace.app.database.connection import Database
    from emplace.app.database.migrate import migrate
    from emplace.app.settings import Settings

    database = Database(Settings.from_environment().database_url)
    try:
        migrate(database)
        with database.writing() as session:
            yield session
    finally:
        database.close()
