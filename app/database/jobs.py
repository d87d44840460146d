"""The changes of a job's row. Each locks the row and goes by the table of transitions.

A job may be cancelled, deleted or put back at any time; a change that comes too late for it does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import BigInteger, delete, func, literal, null, or_, select
from sqlalchemy.orm import Session

from emplace.app.database.states import TRANSITIONS, State
from emplace.app.database.tables import EventRow, IdempotencyRow, PlanRow, ProfileRow, RunRow, StudyRow, now

JobRow = PlanRow | RunRow | ProfileRow | StudyRow
Row = TypeVar("Row", bound=JobRow)
KINDS: tuple[type[JobRow], ...] = (PlanRow, RunRow, ProfileRow, StudyRow)

MAX_ATTEMPTS = 5


@dataclass(frozen=True)
class Ticket:
    """The right to do a job: a fencing token. Putting the job on its queue makes the next number, and the ones before count no more."""

    kind: type[JobRow]
    resource_id: str
    number: int = 0


class Outcome(NamedTuple):
    """How a job ended, without what came of it."""

    state: str
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    gap: float | None


def move(row: JobRow, to: State) -> bool:
    """Bring a locked row into the state `to`, and say whether that may follow the one it is in; if not, nothing changes."""
    if to not in TRANSITIONS[State(row.state)]:
        return False
    row.state = to
    if to.is_final:
        row.finished_at = now()
    return True


def find(session: Session, kind: type[Row], resource_id: str) -> Row | None:
    return session.get(kind, resource_id)


def take_up(session: Session, ticket: Ticket) -> JobRow | None:
    """The job of the ticket, now running; None when there is nothing to do any more."""
    row = _held(session, ticket)
    if row is None or not move(row, State.RUNNING):
        return None
    row.attempts += 1
    row.started_at = row.started_at or now()
    return row


def finish(session: Session, ticket: Ticket, to: State, **values: Any) -> bool:
    """Store the outcome of a job that is running under this ticket. Says whether it was."""
    row = _held(session, ticket)
    if row is None or not move(row, to):
        return False
    for name, value in values.items():
        setattr(row, name, value)
    return True


def give_back(session: Session, ticket: Ticket) -> JobRow | None:
    """Put the job back, because its worker stops in good order, or lives and lost it to a database that failed: the attempt does not count.

    Returns the row, to be queued again, or None when the ticket counts no more.
    """
    row = _held(session, ticket)
    if row is None:
        return None
    row.attempts -= row.state == State.RUNNING
    return row if move(row, State.QUEUED) else None


def recover(session: Session, ticket: Ticket) -> JobRow | None:
    """Put the job back, because the process that did it is gone. One that has had MAX_ATTEMPTS is failed instead: it may be what killed them.

    Returns the row, to be queued again, or None when it failed or the ticket counts no more.
    """
    row = _held(session, ticket)
    if row is None:
        return None
    if row.attempts >= MAX_ATTEMPTS and move(row, State.FAILED):
        row.error = f"{MAX_ATTEMPTS} workers in turn ended while they worked on it"
        return None
    return row if move(row, State.QUEUED) else None


def cancel(session: Session, kind: type[JobRow], resource_id: str) -> State | None:
    """Cancel a job that has not ended; its worker notices by itself. Returns the state it is in now, None when there is no such job."""
    row = locked(session, kind, resource_id)
    if row is None:
        return None
    move(row, State.CANCELLED)
    return State(row.state)


def is_running(session: Session, ticket: Ticket) -> bool:
    """Whether the job is still this ticket's to do."""
    kind = ticket.kind
    found = session.execute(select(kind.state, kind.ticket).where(kind.id == ticket.resource_id)).one_or_none()
    return found is not None and (found.state, found.ticket) == (State.RUNNING, ticket.number)


def running_tickets(session: Session) -> set[Ticket]:
    """The tickets that all running jobs run under."""
    rows = [(kind, row) for kind in KINDS for row in session.execute(select(kind.id, kind.ticket).where(kind.state == State.RUNNING))]
    return {Ticket(kind, row.id, row.ticket) for kind, row in rows}


def without_purpose(session: Session, tickets: Iterable[Ticket]) -> set[Ticket]:
    """Those that will never count again: their jobs ended, were deleted, or have a newer ticket."""
    asked = set(tickets)
    kept = set()
    for kind in KINDS:
        ids = [ticket.resource_id for ticket in asked if ticket.kind is kind]
        rows = session.execute(select(kind.id, kind.ticket, kind.state).where(kind.id.in_(ids)))
        kept |= {Ticket(kind, row.id, row.ticket) for row in rows if not State(row.state).is_final}
    return asked - kept


def state_of(session: Session, kind: type[JobRow], resource_id: str) -> State | None:
    """The state of a job, None when there is no such resource."""
    state = session.scalar(select(kind.state).where(kind.id == resource_id))
    return State(state) if state is not None else None


def count_queued(session: Session, kind: type[JobRow], fingerprint: str | None = None) -> int:
    """How many jobs of a kind wait; of those for one machine where its fingerprint is given."""
    query = select(func.count()).where(kind.state == State.QUEUED)
    if fingerprint is not None:
        assert issubclass(kind, RunRow | ProfileRow)
        query = query.where(kind.host_fingerprint == fingerprint)
    return session.scalars(query.select_from(kind)).one()


def ended_between(session: Session, kind: type[JobRow], since: datetime, until: datetime) -> list[Outcome]:
    """How the jobs fared that ended after `since`, and not after `until`. One that was cancelled before it began didn't fare at all."""
    columns = kind.state, kind.started_at, kind.finished_at, kind.error, PlanRow.gap if kind is PlanRow else null()
    at_work = or_(kind.started_at.is_not(None), kind.state == State.FAILED)
    rows = session.execute(select(*columns).where(kind.finished_at > since, kind.finished_at <= until, at_work))
    return [Outcome(*row) for row in rows]


def oldest_queued_at(session: Session, kind: type[JobRow]) -> datetime | None:
    """When the job was asked for that waits longest."""
    return session.scalar(select(kind.created_at).where(kind.state == State.QUEUED).order_by(kind.id).limit(1))


def count_ahead(session: Session, row: PlanRow) -> int:
    """How many plans that still wait go before this one: the more urgent, and of equal ones those that were asked for before."""
    before = (PlanRow.priority < row.priority, (PlanRow.priority == row.priority) & (PlanRow.id < row.id))  # each a stretch of an index
    counts = [select(func.count()).where(PlanRow.state == State.QUEUED, each).select_from(PlanRow).scalar_subquery() for each in before]
    ahead: int = session.scalars(select(counts[0] + counts[1])).one()
    return ahead


def add_event(session: Session, resource_id: str, data: dict[str, Any]) -> None:
    session.add(EventRow(resource_id=resource_id, data=json.dumps(data)))


def events_after(session: Session, resource_id: str, last_id: int) -> list[EventRow]:
    """Progress in the order it was made. `last_id` is what a client says, and may be more than any id."""
    later = EventRow.id > literal(last_id, BigInteger)
    return list(session.scalars(select(EventRow).where(EventRow.resource_id == resource_id, later).order_by(EventRow.id)))


def remove(session: Session, kind: type[JobRow], resource_id: str) -> list[Ticket]:
    """Delete a resource with its progress and the keys that made it. A worker on it notices by itself.

    Returns the newest ticket of what was there, for its messages to be forgotten.
    """
    gone = [Ticket(kind, resource_id, number) for number in session.scalars(select(kind.ticket).where(kind.id == resource_id))]
    session.execute(delete(EventRow).where(EventRow.resource_id == resource_id))
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.resource_id == resource_id))
    session.execute(delete(kind).where(kind.id == resource_id))
    return gone


def _held(session: Session, ticket: Ticket) -> JobRow | None:
    """The row of the ticket, locked; None when it is gone or the ticket counts no more."""
    row = locked(session, ticket.kind, ticket.resource_id)
    return row if row is not None and row.ticket == ticket.number else None


def locked(session: Session, kind: type[Row], resource_id: str) -> Row | None:
    """The row as it is now; no other transaction changes it before this one ends."""
    return session.get(kind, resource_id, with_for_update=True)
