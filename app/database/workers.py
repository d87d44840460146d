"""Which workers live, by heartbeat. No clocks are compared: a worker is dead when its beat stands still for a lease."""

from __future__ import annotations

import math
import os
import socket
import threading
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


class WorkerObserver:
    """Remembers when it last saw each worker's beat move, on its own clock. Several threads may ask."""

    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._moved: dict[str, tuple[int, float]] = {}
        self._looked_at = -math.inf
        self._lock = threading.Lock()

    def alive(self, session: Session) -> list[WorkerRow]:
        """The workers whose beat has moved within a lease, and those that are seen for the first time."""
        return [row for row, lives in self._look(session) if lives]

    def drop_dead(self, session: Session, own_id: str) -> None:
        """Remove the rows of workers whose beat has stood still for a lease.

        To be called more often than four times a lease: of a longer pause no more than a quarter counts. Where the database was away,
        it was for the others too.
        """
        with self._lock:
            missed_s = max(0.0, time.monotonic() - self._looked_at - self._lease_seconds / 4)
            self._moved = {worker_id: (beat, moved_at + missed_s) for worker_id, (beat, moved_at) in self._moved.items()}
        for row, lives in self._look(session):
            if not lives and row.id != own_id:
                session.execute(delete(WorkerRow).where(WorkerRow.id == row.id, WorkerRow.beat == row.beat))

    def _look(self, session: Session) -> list[tuple[WorkerRow, bool]]:
        rows, at = list_workers(session), time.monotonic()
        with self._lock:
            self._looked_at = at
            known = self._moved
            self._moved = {row.id: seen if (seen := known.get(row.id)) and seen[0] == row.beat else (row.beat, at) for row in rows}
            return [(row, at - self._moved[row.id][1] <= self._lease_seconds) for row in rows]
