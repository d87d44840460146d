"""Workers that die at the worst moments: every job is done, once, by those that live."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest
from dbos import DBOSClient
from sqlalchemy import text

from emplace.app.database import jobs, plans, workers
from emplace.app.database.connection import Database
from emplace.app.database.tables import PlanRow
from emplace.app.jobs.queue import ANY_WORKER, APPLICATION, APPLICATION_VERSION, JobQueue
from emplace.app.settings import Settings
from tests.app.asking import ONLY_SQLITE, START_S, Query, StartWorker, ask_busy, ask_small, wait_for
from tests.app.jobs.programs.dying_worker import MOMENTS
from tests.app.postgres import PostgresServer
from tests.app.processes import is_alive, wait_until
from tests.app.questions import a_question, busy_question


@pytest.fixture
def messages(database: Database) -> Iterator[DBOSClient]:
    client = DBOSClient(system_database_url=database.url, application_name=APPLICATION)
    yield client
    client.destroy()


def unfinished(messages: DBOSClient) -> int:
    return len(messages.list_workflows(status=["PENDING", "ENQUEUED"], load_input=False, load_output=False))


@ONLY_SQLITE
def test_a_worker_may_be_killed_at_any_moment(api: httpx.Client, start_worker: StartWorker, query: Query, messages: DBOSClient) -> None:
    """One job, and one worker after another that is killed over it, each a little later. The last of them has stored the outcome."""
    plan_id = ask_small(api)
    command = [sys.executable, "-m", "tests.app.jobs.programs.dying_worker", "unlucky"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as unlucky:
        assert unlucky.stdin is not None
        assert unlucky.stdout is not None
        for moment in MOMENTS:
            print(moment, file=unlucky.stdin, flush=True)
            assert int(unlucky.stdout.readline()) == -signal.SIGKILL, moment
            assert unfinished(messages) == 1, moment
    outcome = query("SELECT state, attempts, finished_at, document FROM plans")
    assert outcome[0][:2] == ("done", 3)
    start_worker("unlucky")
    wait_until(lambda: unfinished(messages) == 0, START_S)
    assert query("SELECT state, attempts, finished_at, document FROM plans") == outcome
    assert api.get(f"/v1/plans/{plan_id}").json()["plan"]["status"] == "optimal"


@ONLY_SQLITE
def test_what_an_earlier_version_queued_is_done(
    settings: Settings, api: httpx.Client, database: Database, messages: DBOSClient, start_worker: StartWorker
) -> None:
    """Its message has the id of the plan, and no number."""
    del settings
    with database.writing() as session:
        row, _ = plans.create(session, a_question(), "as listed")
        session.flush()
        messages.enqueue_in_transaction(
            session,
            {"workflow_name": "solve", "queue_name": ANY_WORKER, "workflow_id": row.id, "app_version": APPLICATION_VERSION},
            row.id,
        )
    start_worker()
    wait_for(api, row.id, "done")


def test_messages_of_cancelled_jobs_are_not_taken_one_by_one(
    api: httpx.Client, database: Database, messages: DBOSClient, start_worker: StartWorker
) -> None:
    """Thousands held up what was asked for after them for minutes."""
    queue, number = JobQueue(database), 200
    with database.writing() as session:
        for seed in range(number):
            row, _ = plans.create(session, a_question(seed=seed), "as listed")
            queue.put(session, row)
            if seed % 2:
                jobs.cancel(session, PlanRow, row.id)
            else:
                plans.remove(session, row.id)
    queue.close()
    plan_id = ask_small(api)
    start_worker()
    wait_for(api, plan_id, "done")
    dropped = messages.list_workflows(status="CANCELLED", load_input=False, load_output=False)
    assert number / 2 < len(dropped) <= number


@ONLY_SQLITE
def test_a_job_is_done_though_the_database_failed_as_it_was_taken_up(
    api: httpx.Client, database: Database, messages: DBOSClient, start_worker: StartWorker
) -> None:
    """Its row says that it waits, and its message that it is over."""
    full = "CREATE TRIGGER full BEFORE UPDATE ON plans WHEN new.state = 'running' BEGIN SELECT raise(fail, 'the disk is full'); END"
    with database.writing() as session:
        session.execute(text(full))
    plan_id = ask_small(api)
    start_worker()
    wait_until(lambda: messages.list_workflows(status="ERROR", load_input=False, load_output=False), START_S)
    with database.writing() as session:
        session.execute(text("DROP TRIGGER full"))
    wait_for(api, plan_id, "done")
    wait_until(lambda: not messages.list_workflows(status="ERROR", load_input=False, load_output=False), START_S)


@ONLY_SQLITE
def test_an_outcome_that_the_database_refuses_is_not_tried_for_ever(
    api: httpx.Client, database: Database, start_worker: StartWorker, query: Query
) -> None:
    with database.writing() as session:
        refusing = "CREATE TRIGGER refusing BEFORE UPDATE ON plans WHEN new.state = 'done' BEGIN SELECT raise(abort, 'not this one'); END"
        session.execute(text(refusing))
    plan_id = ask_small(api)
    start_worker()
    assert wait_for(api, plan_id, "failed")["error"] == "internal error: IntegrityError: not this one"
    assert query("SELECT attempts FROM plans") == [(1,)]


def queue_busy_plan(database: Database) -> None:
    """Without the service, which would be in the way of a database that goes."""
    queue = JobQueue(database)
    with database.writing() as session:
        row, _ = plans.create(session, busy_question(), "as listed")
        queue.put(session, row)
    queue.close()


def registered(database: Database) -> list[str]:
    with database.reading() as session:
        return [row.id for row in workers.list_workers(session)]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_job_goes_on_when_the_database_is_back(
    database: Database, postgres: PostgresServer, start_worker: StartWorker, query: Query
) -> None:
    """Nobody died: the attempt does not count, and no worker takes another one for dead that saw as little of it for longer than a lease."""
    queue_busy_plan(database)
    both = [start_worker("one"), start_worker("two")]
    first = wait_until(lambda: [step for worker in both for step in worker.steps()], START_S)
    wait_until(lambda: len(registered(database)) == 2, START_S)
    with postgres.stopped():
        wait_until(lambda: not any(map(is_alive, first)), 30)
        time.sleep(3)
    wait_until(lambda: [step for worker in both for step in worker.steps()], 30)
    assert query("SELECT state, attempts FROM plans") == [("running", 1)]
    time.sleep(1)
    assert [worker.stop() for worker in both] == [0, 0]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_worker_stops_without_the_database(database: Database, postgres: PostgresServer, start_worker: StartWorker) -> None:
    queue_busy_plan(database)
    worker = start_worker()
    steps = wait_until(worker.steps, START_S)
    with postgres.stopped():
        assert worker.stop() == 0
        wait_until(lambda: not any(map(is_alive, steps)), 30)


def test_a_worker_ends_when_a_newer_version_migrates_its_database(database: Database, start_worker: StartWorker, query: Query) -> None:
    queue_busy_plan(database)
    worker = start_worker()
    wait_until(worker.steps, START_S)
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert worker.wait(30) == 1
    assert "the worker can't work: the database" in (said := worker.log.read_text())
    assert "belongs to a newer Emplace: its tables are of version 9999" in said
    assert query("SELECT state, attempts FROM plans") == [("queued", 0)]


@ONLY_SQLITE
def test_a_plan_that_is_deleted_while_it_is_at_work_leaves_nothing_and_nothing_is_said(
    api: httpx.Client, messages: DBOSClient, start_worker: StartWorker
) -> None:
    plan_id, worker = ask_busy(api), start_worker()
    wait_until(worker.steps, START_S)
    assert api.delete(f"/v1/plans/{plan_id}").status_code == 204
    wait_until(lambda: not worker.steps(), START_S)
    wait_for(api, ask_small(api), "done")
    assert not messages.list_workflows(status=["PENDING", "ENQUEUED", "ERROR", "CANCELLED"], load_input=False, load_output=False)
    assert worker.stop() == 0
    assert "rror" not in worker.log.read_text()
