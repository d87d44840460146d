"""The job queue: which jobs there are, on which queue each waits, and putting them there together with their row."""

from __future__ import annotations

from dbos import DBOSClient, EnqueueOptions
from sqlalchemy.orm import Session

from emplace.app.database.connection import Database

APPLICATION = "emplace"
APPLICATION_VERSION = "1"
"""Of the workflows. A worker takes up only jobs of its own version."""

SOLVE, RUN, PROFILE = "solve", "run", "profile"
ANY_WORKER = "emplace-plans"
"""The queue of plans: any worker may solve."""


def host_queue(fingerprint: str) -> str:
    """The queue of runs and profiles: only workers on that very machine take from it."""
    return f"emplace-host-{fingerprint}"


class JobQueue:
    """Used by the service, which runs no jobs itself. The database must have been migrated."""

    def __init__(self, database: Database) -> None:
        self._client = DBOSClient(system_database_url=database.url, application_name=APPLICATION)

    def put(self, session: Session, job: str, resource_id: str, queue: str) -> None:
        """Queue a job in the caller's transaction: the resource and its job are stored together or not at all."""
        options: EnqueueOptions = {
            "workflow_name": job,
            "queue_name": queue,
            "workflow_id": resource_id,
            "app_version": APPLICATION_VERSION,
        }
        self._client.enqueue_in_transaction(session, options, resource_id)

    def forget(self, resource_id: str) -> None:
        """Take a cancelled job off its queue. Call it after the transaction that cancelled the resource."""
        self._client.cancel_workflow(resource_id)

    def close(self) -> None:
        self._client.destroy()
