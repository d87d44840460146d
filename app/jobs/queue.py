"""The job queue: one durable message for each ticket of a job, kept by DBOS in the same database.

Where a job stands is said by its row alone. What DBOS says of a message is only whether a worker has taken it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dbos import DBOSClient, EnqueueOptions, WorkflowStatus
from sqlalchemy.orm import Session

from emplace.app.database.connection import Database
from emplace.app.database.jobs import JobRow, Ticket
from emplace.app.database.tables import PlanRow, ProfileRow, RunRow, StudyRow
from emplace.app.traces import carried

APPLICATION = "emplace"
APPLICATION_VERSION = "1"
"""The version of the messages. A worker takes only those of its own version."""

WORKFLOWS: dict[str, type[JobRow]] = {"solve": PlanRow, "run": RunRow, "profile": ProfileRow, "study": StudyRow}
"""The kind of row that each kind of message is about."""
ANY_WORKER = "emplace-plans"
"""The queue of plans: any worker may solve."""
STUDIES = "emplace-studies"
"""That of studies, which take long: they don't stand before plans."""


def host_queue(fingerprint: str) -> str:
    """The queue of runs and profiles: only workers on that very machine take from it."""
    return f"emplace-host-{fingerprint}"


def _queue_of(row: JobRow) -> str:
    match row:
        case PlanRow():
            return ANY_WORKER
        case StudyRow():
            return STUDIES
        case _:
            return host_queue(str(row.host_fingerprint))


def _message_of(row: JobRow) -> EnqueueOptions:
    message: EnqueueOptions = {
        "workflow_name": next(name for name, kind in WORKFLOWS.items() if isinstance(row, kind)),
        "queue_name": _queue_of(row),
        "workflow_id": f"{row.id}.{row.ticket}",
        "app_version": APPLICATION_VERSION,
    }
    if isinstance(row, PlanRow):
        message["priority"] = row.priority
    return message


def _ticket_of(message: WorkflowStatus) -> Ticket:
    assert message.input is not None
    return Ticket(WORKFLOWS[message.name], *message.input["args"])


@dataclass(frozen=True)
class Taken:
    """A message that a worker has taken off its queue and has not finished."""

    message_id: str
    ticket: Ticket
    worker_id: str


class JobQueue:
    """The queue as seen by a process that puts jobs there. The database must have been migrated."""

    def __init__(self, database: Database) -> None:
        # On connections of the same engine it compiles its statements once; on SQLite it needs transactions of its own kind.
        where = {"system_database_url": database.url} if database.writes_one_by_one else {"system_database_engine": database.engine}
        self._client = DBOSClient(**where, application_name=APPLICATION, retry_connection_errors=False)

    def put(self, session: Session, row: JobRow) -> None:
        """Queue a job under its next ticket, in the caller's transaction: the row and the message are stored together or not at all."""
        self.put_all(session, [(row, carried())])

    def put_all(self, session: Session, rows: Sequence[tuple[JobRow, dict[str, str]]]) -> None:
        """`put` for many jobs, each with what is `carried` along from whoever asked for it."""
        for row, _ in rows:
            row.ticket = (row.ticket or 0) + 1
        session.flush()
        for row, trace in rows:
            by = {"queued_by": trace} if trace else {}  # without it older workers understand the message
            self._client.enqueue_in_transaction(session, _message_of(row), row.id, row.ticket, **by)

    def taken(self) -> Iterator[Taken]:
        """The messages that workers have in hand, live or dead."""
        for message in self._client.list_workflows(status="PENDING", name=list(WORKFLOWS), load_output=False):
            yield Taken(message.workflow_id, _ticket_of(message), str(message.executor_id))

    def waiting(self, limit: int) -> dict[str, Ticket]:
        """The oldest messages that no worker has taken, by their ids."""
        return self._oldest("ENQUEUED", limit)

    def failed(self, limit: int) -> dict[str, Ticket]:
        """The oldest messages that a worker took and gave up with an error of its own, as where the database fails it, by their ids."""
        return self._oldest("ERROR", limit)

    def _oldest(self, status: str, limit: int) -> dict[str, Ticket]:
        found = self._client.list_workflows(status=status, name=list(WORKFLOWS), limit=limit, load_output=False)
        return {message.workflow_id: _ticket_of(message) for message in found}

    def drop(self, message_ids: Iterable[str]) -> None:
        """Forget messages: those that their worker will not finish, and those that none needs to take."""
        ids = list(message_ids)
        if ids:
            self._client.cancel_workflows(ids)

    def forget(self, gone: Iterable[Ticket]) -> None:
        """Delete all messages of jobs that are there no more."""
        self.delete(f"{each.resource_id}.{number}" for each in gone for number in range(1, each.number + 1))

    def delete(self, message_ids: Iterable[str]) -> None:
        """Delete messages, with all that is known of them."""
        ids = list(message_ids)
        if ids:
            self._client.delete_workflows(ids)

    def close(self) -> None:
        self._client.destroy()
