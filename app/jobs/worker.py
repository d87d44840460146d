"""The worker process: takes jobs from the queue and does them, and puts back the jobs of workers that died."""

from __future__ import annotations

import contextlib
import logging
import secrets
import signal
import socket
import sys
import tempfile
from pathlib import Path

from dbos import DBOS, DBOSConfig
from dbos import error as dbos_error
from sqlalchemy.exc import DBAPIError

from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.app.database.jobs import JobRow, Ticket
from emplace.app.database.migrate import migrate, refuse_newer
from emplace.app.database.retention import forget_old
from emplace.app.jobs.queue import ANY_WORKER, APPLICATION, APPLICATION_VERSION, STUDIES, WORKFLOWS, JobQueue, host_queue
from emplace.app.jobs.recovery import drop_dead_messages, put_back_lost_jobs
from emplace.app.jobs.stopping import StopSignal
from emplace.app.jobs.warm import WarmProcess
from emplace.app.jobs.work import Worker
from emplace.app.logs import set_up_logs
from emplace.app.settings import Settings
from emplace.app.traces import job_span, sending_traces
from emplace.placement.catalog import LOCAL_HOST
from emplace.placement.errors import EmplaceError
from emplace.placement.host import HostSpec
from emplace.planning import resolve_host
from emplace.runtime.process import die_with_parent
from emplace.runtime.temporary import remove_leftovers

_log = logging.getLogger(__name__)

STOPPED, GIVEN_UP = 0, 1
_QUEUE_POLL_SECONDS, _PLANS_POLL_SECONDS = 0.25, 0.05
_STOP_SECONDS = 30
_BEATS_PER_LEASE = 5
_MESSAGE_GONE = dbos_error.DBOSAwaitedWorkflowCancelledError, dbos_error.DBOSNonExistentWorkflowError


def run_worker(worker_id: str | None = None) -> int:
    """Work until SIGTERM or SIGINT, and return the exit status: not 0 when others gave this worker up for dead.

    A worker that starts again under its old id goes on with its jobs at once. Raises ToolError when the database can't be used, also
    where a newer version migrates it meanwhile: the job in hand is then put back.
    """
    settings = Settings.from_environment()
    set_up_logs(settings.log_format)
    database = Database(settings.database_url)
    migrate(database)
    remove_leftovers(Path(tempfile.gettempdir()))
    queue = JobQueue(database)
    warm = WarmProcess()
    worker = Worker(database, queue, settings, warm)
    worker_id = worker_id or new_worker_id()
    with StopSignal() as stop, sending_traces("worker"):
        _register(database, queue, worker_id, host := resolve_host(LOCAL_HOST))
        try:
            warm.start()
            _launch(database, worker, worker_id, host, settings.plans_at_once)
            return _watch(database, queue, worker, worker_id, stop, settings)
        finally:
            worker.stop()
            DBOS.destroy(workflow_completion_timeout_sec=_STOP_SECONDS)
            warm.stop()
            with contextlib.suppress(DBAPIError), database.writing() as session:
                workers.leave(session, worker_id)


def new_worker_id() -> str:
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def _register(database: Database, queue: JobQueue, worker_id: str, host: HostSpec) -> None:
    """Say that this worker lives. The jobs of an earlier one under this id, which is dead, go back to their queues first."""
    with database.writing() as session:
        workers.leave(session, worker_id)
    put_back_lost_jobs(database, queue)
    with database.writing() as session:
        workers.register(session, worker_id, host)


def _launch(database: Database, worker: Worker, worker_id: str, host: HostSpec, plans_at_once: int) -> None:
    """Start DBOS, and listen to the queues of plans, of studies and of this machine."""
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": database.url,
        "application_version": APPLICATION_VERSION,
        "executor_id": worker_id,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    of_dbos = logging.getLogger("dbos")
    of_dbos.addFilter(_is_worth_saying)
    of_dbos.handlers.clear()  # its lines look like all others
    of_dbos.propagate = True
    for name, kind in WORKFLOWS.items():
        _receive(name, kind, worker)
    queues = {ANY_WORKER: (plans_at_once, _PLANS_POLL_SECONDS), STUDIES: (1, _QUEUE_POLL_SECONDS)}
    if host.fingerprint:
        queues[host_queue(host.fingerprint)] = (1, _QUEUE_POLL_SECONDS)
    DBOS.listen_queues(list(queues))
    DBOS.launch()
    for queue, (at_once, poll_s) in queues.items():
        # This is kept in the database, so the worker that started last decides how many jobs each one takes off the queue.
        DBOS.register_queue(queue, worker_concurrency=at_once, polling_interval_sec=poll_s, on_conflict="always_update")


def _is_worth_saying(record: logging.LogRecord) -> bool:
    """False for the report that a message was dropped, which happens to a worker that was given up for dead and says so, or deleted,
    with a job that was deleted while it was at work."""
    return record.exc_info is None or not isinstance(record.exc_info[1], _MESSAGE_GONE)


def _receive(name: str, kind: type[JobRow], worker: Worker) -> None:
    """Have `worker` do what the messages of this name ask for. DBOS delivers a message to one worker, once."""

    @DBOS.workflow(name=name)
    def workflow(resource_id: str, number: int = 0, queued_by: dict[str, str] | None = None) -> None:
        with job_span(name, resource_id, queued_by):
            worker.do(Ticket(kind, resource_id, number))


def _watch(database: Database, queue: JobQueue, worker: Worker, worker_id: str, stop: StopSignal, settings: Settings) -> int:
    """Show that this worker lives, and look after the jobs of those that don't, until `stop`. Returns the exit status."""
    lease_s = settings.worker_lease_seconds
    observer = workers.WorkerObserver(lease_s)
    missing: set[str] = set()
    while not stop.wait(0):
        try:
            with database.writing() as session:
                refuse_newer(session.connection())
                still_in = workers.beat(session, worker_id)
                observer.drop_dead(session, worker_id)
                gone = forget_old(session, settings.keep_days) if settings.keep_days is not None else []
            queue.forget(gone)
            if not still_in:
                _log.error("worker %s was given up for dead; it ends, and its jobs go on elsewhere", worker_id)
                return GIVEN_UP
            missing = put_back_lost_jobs(database, queue, worker_id, worker.in_hand, missing)
            if worker.met_dead_messages:
                worker.met_dead_messages = False
                drop_dead_messages(database, queue)
        except DBAPIError as error:
            _log.warning("the database does not answer: %s", error.orig)
        stop.wait(lease_s / _BEATS_PER_LEASE)
    return STOPPED


if __name__ == "__main__":
    die_with_parent(signal.SIGTERM)
    try:
        sys.exit(run_worker(sys.argv[1]))
    except EmplaceError as error:
        sys.exit(f"emplace: the worker can't work: {error}")
