"""EMPLACE_KEEP_DAYS: what ended long ago goes, with all that hangs on it; what is newer, at work or prices plans stays."""

from __future__ import annotations

from datetime import timedelta

import httpx
from sqlalchemy import select

from emplace.app.database import jobs
from emplace.app.database.connection import Database
from emplace.app.database.retention import forget_old
from emplace.app.database.states import State
from emplace.app.database.tables import PipelineRow, PlanRow, ProfileRow, RunRow, now
from emplace.app.jobs.queue import JobQueue
from tests.app.asking import Query, ask_small
from tests.app.finished import finish_plan, measurement_of, store_run
from tests.app.questions import model_data

MESSAGES = {"sqlite": "workflow_status", "postgresql": "dbos.workflow_status"}


def test_only_what_ended_long_ago_is_deleted(api: httpx.Client, database: Database, query: Query) -> None:
    old = ask_small(api)
    plan = finish_plan(database, old)
    store_run(database, old, measurement_of(plan))
    asked = {"model": model_data(), "host": "cpu-dual-socket"}
    queued = api.post("/v1/plans", json=asked | {"options": {"seed": 5}}, headers={"Idempotency-Key": "kept"}).json()["id"]
    with database.writing() as session:
        jobs.add_event(session, old, {"elapsed_s": 1.0})
        assert forget_old(session, keep_days=1) == []
        session.get_one(PlanRow, old).finished_at = now() - timedelta(days=2)
    with database.writing() as session:
        assert forget_old(session, keep_days=1) == []  # its run ended today
        for row in session.scalars(select(RunRow)):
            row.finished_at = now() - timedelta(days=2)
    with database.writing() as session:
        gone = forget_old(session, keep_days=1)
    assert [(each.kind, each.number) for each in gone] == [(RunRow, 0), (PlanRow, 1)]
    assert query(f"SELECT count(*) FROM {MESSAGES[database.engine.dialect.name]}") == [(2,)]
    queue = JobQueue(database)
    queue.forget(gone)
    queue.close()
    assert query(f"SELECT count(*) FROM {MESSAGES[database.engine.dialect.name]}") == [(1,)]
    assert query("SELECT id FROM plans") == [(queued,)]
    for table in ("runs", "events"):
        assert query(f"SELECT count(*) FROM {table}") == [(0,)]
    assert query("SELECT count(*) FROM idempotency_keys") == [(1,)]


def test_pipelines_that_came_to_no_plan_go_too(database: Database) -> None:
    """Not those whose profile is still to be measured."""
    long_ago = now() - timedelta(days=2)
    with database.writing() as session:
        waiting, failed = (ProfileRow(host_name="here", source="measured", state=state) for state in (State.QUEUED, State.FAILED))
        session.add_all([waiting, failed])
        session.flush()
        kept = PipelineRow(question="{}", profile="{}", profile_id=waiting.id, created_at=long_ago)
        session.add_all([kept, PipelineRow(question="{}", error="does not fit"), PipelineRow(question="{}", created_at=long_ago)])
        session.add(PipelineRow(question="{}", profile="{}", profile_id=failed.id, created_at=long_ago))
    with database.writing() as session:
        assert forget_old(session, keep_days=1) == []
        assert {row.error or row.id for row in session.scalars(select(PipelineRow))} == {"does not fit", kept.id}
