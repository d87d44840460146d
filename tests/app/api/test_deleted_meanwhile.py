"""A plan is deleted while others ask for something of it."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from emplace.app.api.routes import runs
from emplace.app.database import plans, workers
from emplace.app.database.connection import Database
from emplace.app.database.tables import IdempotencyRow, RunRow
from tests.app.asking import Query, ask_small
from tests.app.finished import finish_plan
from tests.app.questions import QUICK_OPTIONS, a_host, model_data

WAITS_S = 0.5
"""So long a request is left to reach the lock that another transaction holds."""


@pytest.fixture
def emulated(api: httpx.Client, database: Database) -> str:
    """A finished plan, and a worker that may emulate it."""
    plan_id = ask_small(api)
    finish_plan(database, plan_id)
    with database.writing() as session:
        workers.register(session, "here", a_host().model_copy(update={"fingerprint": "here"}))
    return plan_id


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "one"}])
def test_a_run_of_a_plan_that_is_deleted_meanwhile_is_of_no_plan(
    api: httpx.Client, database: Database, emulated: str, headers: dict[str, str]
) -> None:
    with ThreadPoolExecutor() as others:
        with database.writing() as session:
            plans.remove(session, emulated)
            asked: Future[httpx.Response] = others.submit(
                api.post, f"/v1/plans/{emulated}/runs", json={"emulate": True}, headers=headers, timeout=15
            )
            time.sleep(WAITS_S)
        assert asked.result().status_code == 404


def test_what_deletes_a_plan_takes_the_run_along_that_is_stored_meanwhile(
    api: httpx.Client, database: Database, emulated: str, query: Query
) -> None:
    with ThreadPoolExecutor() as others:
        with database.writing() as session:
            runs.plan_to_run(session, emulated)
            run = RunRow(plan_id=emulated, host_fingerprint="here", seed=0)
            session.add(run)
            session.flush()
            session.add(IdempotencyRow(key="one", request_digest="", resource_id=run.id))
            deleted: Future[httpx.Response] = others.submit(api.delete, f"/v1/plans/{emulated}")
            time.sleep(WAITS_S)
        assert deleted.result().status_code == 204
    assert query("SELECT count(*) FROM runs") == query("SELECT count(*) FROM idempotency_keys") == [(0,)]


def test_a_pipelines_key_makes_a_new_one_when_its_plan_was_deleted(api: httpx.Client) -> None:
    def ask() -> dict[str, Any]:
        question = {"model": model_data(), "host": "cpu-dual-socket", "options": QUICK_OPTIONS | {"ranks": 2}}
        answered = api.post("/v1/pipelines", json=question, headers={"Idempotency-Key": "one"})
        assert answered.status_code == 202, answered.text
        return dict(answered.json())

    first = ask()
    assert ask()["id"] == first["id"]
    assert api.delete(first["stages"][0]["location"]).status_code == 204
    assert ask()["id"] != first["id"]
