"""One database, SQLite or PostgreSQL, and one transaction at a time on it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, InternalError, OperationalError
from sqlalchemy.orm import Session

from emplace.placement.errors import ToolError

_PATIENCE_S = 30.0
_CACHE_KIB = 256
"""What each SQLite connection keeps of the file. There are dozens, and the system has the file in memory already."""
_CONNECT_TIMEOUT_S = 5
"""How long PostgreSQL's host may take to answer at all."""
_IDLE_TIMEOUT_MS = 10_000
"""How long PostgreSQL keeps a transaction whose process asks for nothing: one that hangs must not hold its locks for ever."""
_SECRETS = {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
"""What libpq takes that is nobody else's, as keys of a URL."""

NO_ANSWER = (OperationalError, InterfaceError, InternalError)
"""What is raised when the database can't be reached, is busy or fails, whatever it was asked."""


class Database:
    """The engine behind `url`. Both services' tables and the job queue's live in it, so a plan and its job are stored together."""

    connections = 30
    """No more are open at once; who wants another one waits."""

    def __init__(self, url: str, *, patience_s: float = _PATIENCE_S) -> None:
        """`patience_s`: a transaction that waits longer for another's lock fails. Raises ToolError for a URL of another kind."""
        parsed = parsed_url(url)
        if parsed.get_backend_name() == "sqlite":
            Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
        self.url = parsed.render_as_string(hide_password=False)
        self._engine = _create_engine(parsed, self.connections, round(1000 * patience_s))
        self._writer = self._engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def writes_one_by_one(self) -> bool:
        """Whether one transaction at a time may write. Who waits for SQLite's lock asks for it again and again, in no order."""
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads: one consistent view."""
        with Session(self._engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that may write: all of it, or nothing if an exception leaves the block."""
        with Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        self._engine.dispose()


def shown_url(url: URL) -> str:
    """The URL as people may see it, with stars for what is secret."""
    return url.update_query_dict(dict.fromkeys(_SECRETS & url.query.keys(), "***")).render_as_string()


def parsed_url(url: str) -> URL:
    """The URL with its driver. Raises ToolError."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ToolError("EMPLACE_DATABASE_URL must be a URL such as sqlite:///emplace.db or postgresql://user@host/emplace") from None
    if "@" in (parsed.host or ""):
        raise ToolError("EMPLACE_DATABASE_URL: in a user's name and password %40 stands for @, %3A for :, %2F for / and %25 for %")
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed.set(drivername="sqlite")
    if backend in ("postgresql", "postgres") and parsed.database:
        return parsed.set(drivername="postgresql+psycopg")
    raise ToolError("EMPLACE_DATABASE_URL must name an SQLite file or a PostgreSQL database")


def _create_engine(url: URL, connections: int, patience_ms: int) -> Engine:
    if url.get_backend_name() != "sqlite":
        options = [
            *url.normalized_query.get("options", ()),
            f"-c idle_in_transaction_session_timeout={_IDLE_TIMEOUT_MS}",
            f"-c lock_timeout={patience_ms}",
        ]
        arguments = {"options": " ".join(options), "connect_timeout": url.query.get("connect_timeout", _CONNECT_TIMEOUT_S)}
        return create_engine(url, pool_pre_ping=True, pool_size=connections, max_overflow=0, connect_args=arguments)
    engine = create_engine(url, pool_size=connections, max_overflow=0)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say so, below
        cache = f"cache_size=-{_CACHE_KIB}"
        for pragma in (f"busy_timeout={patience_ms}", cache, "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer takes the lock at once: a reader that turns into a writer could find its view outdated.
        connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))

    return engine


@event.listens_for(Engine, "connect")
def _add_clock(connection: Any, _: Any) -> None:
    """SQLite's `unixepoch('subsec')` for those before 3.42. DBOS asks for it on Python 3.12 and newer, whatever SQLite is there, on engines of its own."""
    if isinstance(connection, sqlite3.Connection) and sqlite3.sqlite_version_info < (3, 42):
        connection.create_function("unixepoch", 1, lambda _: round(time.time(), 3))
