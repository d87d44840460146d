"""Stored studies: point by point while they are at work, one document in the end."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session, undefer

from emplace.app.database import jobs
from emplace.app.database.jobs import Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import StudyPointRow, StudyRow


def columns_of(answer: Any) -> dict[str, Any]:  # noqa: ARG001
    """What a finished study's row says beside its document."""
    return {"before": None}


def find(session: Session, study_id: str, *, with_document: bool = False) -> StudyRow | None:
    return session.get(StudyRow, study_id, options=[undefer(StudyRow.document)] if with_document else [])


def points_of(session: Session, study_id: str) -> list[str]:
    """What the points that are done came to, in their order."""
    rows = select(StudyPointRow.document).where(StudyPointRow.study_id == study_id).order_by(StudyPointRow.number)
    return list(session.scalars(rows))


def keep_point(session: Session, ticket: Ticket, number: int, document: Any, before: Any) -> bool:
    """Store what a point came to, and the plan that the next one begins with. False where the study is not this ticket's any more.

    A study that gets on is not what ends its workers, however many that are.
    """
    row = jobs.locked(session, StudyRow, ticket.resource_id)
    if row is None or (row.state, row.ticket) != (State.RUNNING, ticket.number):
        return False
    session.execute(insert(StudyPointRow).values(study_id=row.id, number=number, document=json.dumps(document)))
    row.points_done, row.attempts = number + 1, 1
    row.before = None if before is None else json.dumps(before)
    jobs.add_event(session, row.id, {"points_done": row.points_done, "points": row.points})
    return True


def drop_points(session: Session, study_id: str) -> None:
    """Those of a study that has its document."""
    session.execute(delete(StudyPointRow).where(StudyPointRow.study_id == study_id))


def remove(session: Session, study_id: str) -> list[Ticket]:
    """Delete a study. Returns the newest ticket of what was there."""
    drop_points(session, study_id)
    return jobs.remove(session, StudyRow, study_id)
