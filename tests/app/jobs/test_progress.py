"""What a child reports of a job that is not its worker's any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.orm import Session

from emplace.app.database import jobs, plans
from emplace.app.database.connection import Database
from emplace.app.database.jobs import Ticket
from emplace.app.database.tables import PlanRow
from emplace.app.jobs import work
from emplace.app.jobs.child_errors import ChildStopped
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.warm import WarmProcess
from emplace.app.settings import Settings
from tests.app.asking import Query
from tests.app.questions import a_question


@pytest.mark.parametrize("end", [plans.remove, lambda session, plan_id: jobs.cancel(session, PlanRow, plan_id)])
def test_nothing_is_told_of_a_job_that_was_cancelled_or_deleted(
    database: Database, settings: Settings, query: Query, monkeypatch: pytest.MonkeyPatch, end: Callable[[Session, str], object]
) -> None:
    def child(step: str, document: str, on_progress: Callable[[dict[str, Any]], None], *_: object) -> str:
        del step, document
        on_progress({"phase": "search"})
        with database.writing() as session:
            end(session, ticket.resource_id)
        monkeypatch.setattr(work, "_MIN_REPORT_SECONDS", 0.0)
        on_progress({"phase": "too late"})
        raise ChildStopped

    monkeypatch.setattr(work, "run_child", child)
    queue = JobQueue(database)
    with database.writing() as session:
        row, _ = plans.create(session, a_question(), "")
        queue.put(session, row)
        ticket = Ticket(PlanRow, row.id, row.ticket)
    work.Worker(database, queue, settings, WarmProcess()).do(ticket)
    queue.close()
    assert not any("too late" in str(row) for row in query("SELECT data FROM events"))
    assert query("SELECT count(*) FROM events WHERE resource_id NOT IN (SELECT id FROM plans)") == [(0,)]
