"""What a worker does beside what: two plans here; a plan doesn't wait behind a run, and nothing runs beside a profile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from emplace.app.database import jobs, plans
from emplace.app.database.connection import Database
from emplace.app.database.jobs import JobRow, Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import ProfileRow, RunRow
from emplace.app.jobs import work
from emplace.app.jobs.child_errors import ChildFailed
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.warm import WarmProcess
from emplace.app.jobs.work import Worker
from emplace.app.settings import Settings
from tests.app.asking import ONLY_SQLITE
from tests.app.finished import finish_plan
from tests.app.processes import wait_until
from tests.app.questions import a_question

Put = Callable[[str], Ticket]


@pytest.fixture
def put(database: Database) -> Iterator[Put]:
    """Queue a job of the kind `solve`, `run` or `profile`."""
    queue, seeds = JobQueue(database), iter(range(100))

    def put_one(step: str) -> Ticket:
        with database.writing() as session:
            plan, _ = plans.create(session, a_question(seed=next(seeds)), "as listed")
            queue.put(session, plan)
        if step == "run":
            finish_plan(database, plan.id)
        with database.writing() as session:
            row: JobRow = plan
            if step == "run":
                row = RunRow(plan_id=plan.id, host_fingerprint="here", steps=3, seed=0)
            elif step == "profile":
                row = ProfileRow(host_name="local", host_fingerprint="here", source="measured", ranks=1, quick=True, seed=0)
            if row is not plan:
                session.add(row)
                queue.put(session, row)
            return Ticket(type(row), row.id, row.ticket)

    yield put_one
    queue.close()


class Children:
    """In place of child programs: each says that it runs, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: list[str] = []
        self.go = threading.Event()
        monkeypatch.setattr(work, "run_child", self._run)

    def _run(self, step: str, *_: Any) -> str:
        self.running.append(step)
        assert self.go.wait(20)
        self.running.remove(step)
        raise ChildFailed("it was only for show")


@pytest.fixture(autouse=True)
def _two_plans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_PLANS_AT_ONCE", "2")


@ONLY_SQLITE
@pytest.mark.parametrize(
    ("asked", "together"),
    [
        (["run", "solve"], ["run", "solve"]),
        (["solve", "solve"], ["solve", "solve"]),
        (["solve", "solve", "solve"], ["solve", "solve"]),
        (["solve", "solve", "profile"], ["solve", "solve"]),
        (["profile", "solve", "solve"], ["profile"]),
        (["run", "run"], ["run"]),
        (["profile", "solve"], ["profile"]),
        (["profile", "run"], ["profile"]),
        (["solve", "profile"], ["solve"]),
        (["run", "profile"], ["run"]),
    ],
)
def test_what_runs_at_once(
    settings: Settings, database: Database, put: Put, monkeypatch: pytest.MonkeyPatch, asked: list[str], together: list[str]
) -> None:
    children, tickets = Children(monkeypatch), [put(step) for step in asked]
    queue = JobQueue(database)
    worker = Worker(database, queue, settings, WarmProcess())
    threads = []
    for number, ticket in enumerate(tickets):
        threads.append(threading.Thread(target=worker.do, args=(ticket,)))
        threads[-1].start()
        wait_until(lambda: len(worker.in_hand) > number and len(children.running) >= min(number + 1, len(together)), 20)  # noqa: B023
    threads[-1].join(0.3)
    assert children.running == together
    children.go.set()
    for thread in threads:
        thread.join(20)
    with database.reading() as session:
        assert {jobs.state_of(session, ticket.kind, ticket.resource_id) for ticket in tickets} == {State.FAILED}
    queue.close()
