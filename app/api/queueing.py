"""New jobs join their queue only while that has room."""

from __future__ import annotations

from http import HTTPStatus

from sqlalchemy.orm import Session

from emplace.app.database import jobs
from emplace.app.database.jobs import JobRow
from emplace.app.database.tables import PlanRow, ProfileRow, RunRow, StudyRow
from emplace.app.settings import Settings
from emplace.app.web.problems import Refused, ask_later
from emplace.app.web.service import Service


def put_new(service: Service, session: Session, row: JobRow) -> None:
    """Store a job that is new and queue it. Raises Refused, after which nothing of it is stored, when as many wait already as may.

    Requests at the same moment may each find the last place: the limit is kept to within as many as write at once.
    """
    session.add(row)
    session.flush()
    others = jobs.count_queued(session, type(row), row.host_fingerprint if isinstance(row, RunRow | ProfileRow) else None) - 1
    if others >= most_waiting(service.settings, type(row)):
        raise no_room(others, type(row))
    service.queue.put(session, row)


def most_waiting(settings: Settings, kind: type[JobRow]) -> int:
    """How many jobs of a kind may wait; of runs and profiles, for one machine."""
    return {PlanRow: settings.plan_queue, StudyRow: settings.study_queue}.get(kind, settings.measurement_queue)


def no_room(others: int, kind: type[JobRow]) -> Refused:
    return ask_later(HTTPStatus.TOO_MANY_REQUESTS, f"{others} {kind.__tablename__} wait for a worker already; ask again")
