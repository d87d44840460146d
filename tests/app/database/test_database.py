"""The stored resources, on both databases."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError

from emplace.app.database import connection, jobs, paging, plans, workers
from emplace.app.database.connection import Database
from emplace.app.database.migrate import alembic_config, migrate
from emplace.app.database.states import State
from emplace.app.database.tables import Base, PlanRow, new_id
from emplace.placement.errors import ToolError
from tests.app.asking import ONLY_SQLITE
from tests.app.questions import a_host, a_question


def test_migrations_make_exactly_the_tables_of_the_code(database: Database) -> None:
    with database.reading() as session:
        own = set(Base.metadata.tables) | {"alembic_version"}
        context = MigrationContext.configure(
            session.connection(), opts={"include_name": lambda name, kind, _: kind != "table" or name in own}
        )
        assert compare_metadata(context, Base.metadata) == []


def test_migrating_again_changes_nothing_and_can_be_undone(database: Database) -> None:
    migrate(database)
    with database.writing() as session:
        command.downgrade(alembic_config(session.connection()), "base")
    with database.reading() as session:
        assert not set(Base.metadata.tables) & set(inspect(session.connection()).get_table_names())


def test_a_database_of_a_newer_version_is_left_alone_and_said_so(database: Database) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        ToolError, match=r"belongs to a newer Emplace: its tables are of version 9999, and this program knows those up to 00\d\d"
    ):
        migrate(database)
    with database.reading() as session:
        assert session.scalar(text("SELECT version_num FROM alembic_version")) == "9999"


def test_the_digests_of_a_plans_row_are_those_of_its_documents() -> None:
    question = a_question()
    columns = plans.new_columns(question, "")
    assert columns["question"] == question.canonical_json()
    documents = {"question": question, "model": question.model, "host": question.host}
    assert {name: columns[f"{name}_digest"] for name in documents} == {name: each.content_digest() for name, each in documents.items()}


def test_a_database_that_does_not_answer_is_a_tool_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="can't be used"):
        migrate(Database(f"postgresql://nobody@/nothing?host={tmp_path}"))
    with pytest.raises(ToolError, match="SQLite file or a PostgreSQL database"):
        Database("mysql://somewhere/else")


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_process_that_hangs_in_a_transaction_loses_its_locks(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.writing() as session:
        row, _ = plans.create(session, a_question(), "as listed")
    monkeypatch.setattr(connection, "_IDLE_TIMEOUT_MS", 300)
    hanging = Database(database_url)

    def cancelled_meanwhile() -> None:
        with hanging.writing() as session:
            session.get_one(PlanRow, row.id, with_for_update=True)
            assert jobs_cancelled(database, row.id) is State.CANCELLED
            session.execute(text("SELECT 1"))

    with pytest.raises(DBAPIError, match="idle-in-transaction"):
        cancelled_meanwhile()
    hanging.close()


def jobs_cancelled(database: Database, plan_id: str) -> State | None:
    with database.writing() as session:
        return jobs.cancel(session, PlanRow, plan_id)


def test_equal_questions_asked_at_once_make_one_plan(database: Database) -> None:
    question = a_question()

    def ask(_: int) -> tuple[str, bool]:
        with database.writing() as session:
            row, is_new = plans.create(session, question, "as listed")
            return row.id, is_new

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(16)))
    assert len({plan_id for plan_id, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1


@ONLY_SQLITE
def test_an_equal_question_is_found_by_its_digest_however_many_plans_wait(database: Database) -> None:
    asked: list[tuple[str, Any]] = []
    with database.reading() as session:
        connection = session.connection()
        event.listen(connection, "before_cursor_execute", lambda *sent: asked.append(sent[2:4]))
        plans.find_answer(session, "sha256:0")
        statement, values = asked[0]
        steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert steps == ["SEARCH plans USING INDEX plans_one_per_question (question_digest=?)"]


def test_a_failed_or_cancelled_search_does_not_stand_for_an_answer(database: Database) -> None:
    with database.writing() as session:
        first, _ = plans.create(session, a_question(), "as listed")
        assert jobs.cancel(session, PlanRow, first.id) is State.CANCELLED
    with database.writing() as session:
        second, is_new = plans.create(session, a_question(), "as listed")
    assert is_new
    assert second.id != first.id


def test_an_exception_undoes_the_whole_transaction(database: Database) -> None:
    def fail_half_way() -> None:
        with database.writing() as session:
            plans.create(session, a_question(), "as listed")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    with database.reading() as session:
        assert paging.page(session, PlanRow, {}, None, 10) == ([], None)


def test_every_sqlite_has_the_clock_that_the_job_queue_reads() -> None:
    with create_engine("sqlite://").connect() as connection:
        assert connection.scalar(text("SELECT unixepoch('subsec')")) == pytest.approx(time.time(), abs=5)


def test_pages_walk_over_every_row_once_newest_first(database: Database) -> None:
    with database.writing() as session:
        made = [plans.create(session, a_question(seed=seed), "as listed")[0].id for seed in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        with database.reading() as session:
            rows, cursor = paging.page(session, PlanRow, {}, cursor, 3)
        seen += [row.id for row in rows]
        if cursor is None:
            break
    assert sorted(seen, reverse=True) == seen
    assert sorted(seen) == sorted(made)


def test_ids_sort_by_the_time_they_were_made() -> None:
    ids = [new_id() for _ in range(50)]
    assert [each[:12] for each in ids] == sorted(each[:12] for each in ids)
    assert len(set(ids)) == 50


def test_times_keep_their_zone(database: Database) -> None:
    before = datetime.now(UTC)
    with database.writing() as session:
        plan_id = plans.create(session, a_question(), "as listed")[0].id
    with database.reading() as session:
        stored = session.get_one(PlanRow, plan_id).created_at
    assert before <= stored <= datetime.now(UTC)


def test_a_worker_is_dropped_when_its_beat_stands_still(database: Database) -> None:
    observer = workers.WorkerObserver(lease_seconds=0.2)
    with database.writing() as session:
        workers.register(session, "alive", a_host())
        workers.register(session, "dead", a_host())
    for _ in range(8):
        with database.writing() as session:
            workers.beat(session, "alive")
            observer.drop_dead(session, "me")
        time.sleep(0.05)
    with database.writing() as session:
        assert [row.id for row in workers.list_workers(session)] == ["alive"]
        assert workers.beat(session, "alive")
        assert not workers.beat(session, "dead")


@ONLY_SQLITE
def test_a_worker_is_not_dropped_for_what_nobody_saw(database: Database) -> None:
    """As where the database was away for longer than a lease: the first that is back does not take the others for dead."""
    observer = workers.WorkerObserver(lease_seconds=0.4)
    with database.writing() as session:
        workers.register(session, "other", a_host())
        observer.drop_dead(session, "me")
    time.sleep(0.6)
    with database.writing() as session:
        observer.drop_dead(session, "me")
        assert workers.beat(session, "other")


SECRET = "a-word-of-mine"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/nothing",
        f"postgresql://me@127.0.0.1:1/nothing?password={SECRET}",
        f"postgresql://me@127.0.0.1:1/nothing?sslpassword={SECRET}",
        f"postgresql://me:x@{SECRET}@127.0.0.1:1/nothing",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(ToolError) as raised:
        migrate(Database(url))
    assert SECRET not in str(raised.value)
    assert "%40" in str(raised.value) or "postgresql" in str(raised.value)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_what_the_url_asks_of_postgresql_counts(database_url: str) -> None:
    database = Database(f"{database_url}&options=-c%20work_mem%3D7MB&connect_timeout=7", patience_s=3.0)
    with database.reading() as session:
        assert [session.scalar(text(f"SHOW {name}")) for name in ("work_mem", "lock_timeout")] == ["7MB", "3s"]
        connected = session.connection().connection.driver_connection
        assert connected is not None
        assert connected.info.get_parameters()["connect_timeout"] == "7"
    database.close()
