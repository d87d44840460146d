"""Backup and restore, as docs/how-to/operate.md says: while the service runs, into a database of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url

from emplace.app.database import paging
from emplace.app.database.connection import Database
from emplace.app.database.jobs import Ticket, take_up
from emplace.app.database.migrate import migrate
from emplace.app.database.tables import PlanRow
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.recovery import put_back_lost_jobs
from tests.app.asking import ask_small
from tests.app.finished import finish_plan
from tests.app.postgres import PostgresServer, find_programs
from tests.app.questions import model_data


def restored(database: Database, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a copy that was made by the tools of the database."""
    if database.engine.dialect.name == "sqlite":
        with sqlite3.connect(str(database.engine.url.database)) as source, sqlite3.connect(tmp_path / "copy.db") as target:
            source.backup(target)
        return f"sqlite:///{tmp_path / 'copy.db'}"
    programs, server = find_programs(), request.getfixturevalue("postgres")
    assert programs is not None
    assert isinstance(server, PostgresServer)
    copy = server.create_database()
    for program, url, arguments in (("pg_dump", database.url, ["--format", "custom", "--file"]), ("pg_restore", copy, ["--no-owner"])):
        parts = make_url(url)
        where = os.environ | {"PGHOST": str(parts.query["host"]), "PGUSER": "emplace"}
        into = ["--dbname", str(parts.database)]
        subprocess.run([programs / program, *into, *arguments, tmp_path / "dump"], env=where, check=True, capture_output=True)
    return copy


def test_what_was_done_is_there_and_what_was_in_hand_is_queued_again(
    api: httpx.Client, database: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    done = ask_small(api)
    finish_plan(database, done)
    asked = {"model": model_data(), "host": "cpu-dual-socket", "options": {"seed": 7}}
    in_hand = api.post("/v1/plans", json=asked).json()["id"]
    with database.writing() as session:
        assert take_up(session, Ticket(PlanRow, in_hand, 1)) is not None
    copy = Database(restored(database, tmp_path, request))
    migrate(copy)
    queue = JobQueue(copy)
    put_back_lost_jobs(copy, queue, "the next worker", in_hand=())
    queue.close()
    with copy.reading() as session:
        found = {row.id: (row.state, row.ticket, row.document is not None) for row in paging.page(session, PlanRow, {}, None, 10)[0]}
    copy.close()
    assert found == {done: ("done", 1, True), in_hand: ("queued", 2, False)}
