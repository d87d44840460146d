"""What a worker does to the resource it works on. Every change is conditional: a job may be cancelled, deleted or taken over meanwhile."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from sqlalchemy import CursorResult, delete, select, update
from sqlalchemy.orm import Session

from emplace.app.database.tables import UNFINISHED, EventRow, IdempotencyRow, PlanRow, ProfileRow, RunRow, State, now

JobRow = PlanRow | RunRow | ProfileRow
Row = TypeVar("Row", PlanRow, RunRow, ProfileRow)

MAX_ATTEMPTS = 5


def take_up(session: Session, kind: type[Row], resource_id: str) -> Row | None:
    """The resource, now running; None when there is nothing to do any more.

    A job whose worker died again and again is failed here: it may be what killed them.
    """
    row = session.get(kind, resource_id, with_for_update=True)
    if row is None or row.state not in UNFINISHED:
        return None
    row.attempts += 1
    if row.attempts > MAX_ATTEMPTS:
        row.state, row.finished_at = State.FAILED, now()
        row.error = f"{MAX_ATTEMPTS} workers in turn ended while they worked on it"
        return None
    row.state, row.started_at = State.RUNNING, row.started_at or now()
    return row


def give_back(session: Session, kind: type[JobRow], resource_id: str) -> None:
    """The worker stops in good order and leaves the job to another: that attempt does not count."""
    session.execute(update(kind).where(kind.id == resource_id, kind.state == State.RUNNING).values(attempts=kind.attempts - 1))


def finish(session: Session, kind: type[JobRow], resource_id: str, **values: Any) -> bool:
    """Store the outcome of a job that is still running. Says whether it was."""
    change = update(kind).where(kind.id == resource_id, kind.state.in_(UNFINISHED)).values(finished_at=now(), **values)
    result = session.execute(change)
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def cancel(session: Session, kind: type[JobRow], resource_id: str) -> bool:
    """Cancel a job that has not ended. Says whether it was so; its worker notices by itself."""
    return finish(session, kind, resource_id, state=State.CANCELLED)


def state_of(session: Session, kind: type[JobRow], resource_id: str) -> State | None:
    """None when there is no such resource."""
    state = session.scalar(select(kind.state).where(kind.id == resource_id))
    return State(state) if state is not None else None


def is_running(session: Session, kind: type[JobRow], resource_id: str) -> bool:
    return state_of(session, kind, resource_id) is State.RUNNING


def add_event(session: Session, resource_id: str, data: dict[str, Any]) -> None:
    session.add(EventRow(resource_id=resource_id, data=json.dumps(data)))


def events_after(session: Session, resource_id: str, last_id: int) -> list[EventRow]:
    """Progress in the order it was made."""
    return list(session.scalars(select(EventRow).where(EventRow.resource_id == resource_id, EventRow.id > last_id).order_by(EventRow.id)))


def remove(session: Session, kind: type[JobRow], resource_id: str) -> None:
    """Delete a resource with its progress and the keys that made it. A worker on it notices by itself."""
    session.execute(delete(EventRow).where(EventRow.resource_id == resource_id))
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.resource_id == resource_id))
    session.execute(delete(kind).where(kind.id == resource_id))
