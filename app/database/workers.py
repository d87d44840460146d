"""Which workers live, by heartbeat. No clocks are compared: a worker is dead when its beat stands still for a lease."""

from __future__ import annotations

import os
import socket
import time

from sqlalchemy import CursorResult, delete, select, update
from sqlalchemy.orm import Session

from emplace.app.database.tables import WorkerRow, now
from emplace.placement.host import HostSpec


def register(session: Session, worker_id: str, host: HostSpec) -> None:
    """Store the row of a worker, in place of an earlier one's under the same id."""
    session.execute(delete(WorkerRow).where(WorkerRow.id == worker_id))
    session.add(
        WorkerRow(
            id=worker_id,
            machine=socket.gethostname(),
            pid=os.getpid(),
            host=host.model_dump_json(exclude_none=True),
            host_fingerprint=host.fingerprint,
        )
    )


def beat(session: Session, worker_id: str) -> bool:
    """Show that the worker lives. False: it was given up for dead, and others have its jobs."""
    result = session.execute(update(WorkerRow).where(WorkerRow.id == worker_id).values(beat=WorkerRow.beat + 1, seen_at=now()))
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def leave(session: Session, worker_id: str) -> None:
    session.execute(delete(WorkerRow).where(WorkerRow.id == worker_id))


def list_workers(session: Session) -> list[WorkerRow]:
    return list(session.scalars(select(WorkerRow).order_by(WorkerRow.started_at, WorkerRow.id)))


def worker_hosts(session: Session) -> dict[str, str]:
    """The HostSpec text of each machine with a worker, by fingerprint."""
    return {row.host_fingerprint: row.host for row in list_workers(session) if row.host_fingerprint is not None}


class Observer:
    """Remembers when it last saw each worker's beat move, on its own clock."""

    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._moved: dict[str, tuple[int, float]] = {}

    def drop_dead(self, session: Session, own_id: str) -> None:
        """Remove the rows of workers whose beat has stood still for a lease."""
        rows, at = list_workers(session), time.monotonic()
        self._moved = {
            row.id: seen if (seen := self._moved.get(row.id)) is not None and seen[0] == row.beat else (row.beat, at) for row in rows
        }
        for worker_id, (seen_beat, since) in self._moved.items():
            if worker_id != own_id and at - since > self._lease_seconds:
                session.execute(delete(WorkerRow).where(WorkerRow.id == worker_id, WorkerRow.beat == seen_beat))
