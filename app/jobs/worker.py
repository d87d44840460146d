"""The worker process: takes jobs from the queue, does them, and takes over the jobs of workers that died."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from dbos import DBOS, DBOSConfig
from dbos import error as dbos_error
from sqlalchemy.exc import OperationalError

from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.app.database.migrate import migrate
from emplace.app.jobs.queue import ANY_WORKER, APPLICATION, APPLICATION_VERSION, PROFILE, RUN, SOLVE, host_queue
from emplace.app.jobs.stopping import StopSignal
from emplace.app.jobs.work import Worker
from emplace.app.settings import Settings
from emplace.placement.catalog import LOCAL_HOST
from emplace.placement.host import HostSpec
from emplace.planning import resolve_host
from emplace.runtime.process import die_with_parent
from emplace.runtime.temporary import remove_leftovers

_log = logging.getLogger(__name__)

_QUEUE_POLL_SECONDS = 0.25
_STOP_SECONDS = 30.0
_BEATS_PER_LEASE = 5


def run_worker(worker_id: str | None = None) -> None:
    """Work until SIGTERM or SIGINT. A worker that starts again under its old id goes on with its jobs at once.

    Raises ToolError when the database can't be used.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    settings = Settings.from_environment()
    database = Database(settings.database_url)
    migrate(database)
    remove_leftovers(Path(tempfile.gettempdir()))
    worker_id = worker_id or new_worker_id()
    host = resolve_host(LOCAL_HOST)
    worker = Worker(database, settings)
    stop = StopSignal()
    with database.writing() as session:
        workers.register(session, worker_id, host)
    _launch(database, worker, worker_id, host)
    _watch(database, settings, worker_id, stop)
    worker.stop(_STOP_SECONDS)
    with contextlib.suppress(OperationalError), database.writing() as session:
        workers.leave(session, worker_id)
    logging.shutdown()
    os._exit(0)  # DBOS would wait for the job in hand, which is left to another worker


def new_worker_id() -> str:
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def _launch(database: Database, worker: Worker, worker_id: str, host: HostSpec) -> None:
    """Register the workflows, start DBOS, and listen to the queue of plans and that of this machine."""
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": database.url,
        "application_version": APPLICATION_VERSION,
        "executor_id": worker_id,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    logging.getLogger("dbos").addFilter(_is_no_cancellation)
    for name, work in ((SOLVE, worker.solve), (RUN, worker.run), (PROFILE, worker.profile)):
        _register(name, work)
    queues = [ANY_WORKER] + ([host_queue(host.fingerprint)] if host.fingerprint else [])
    DBOS.listen_queues(queues)
    DBOS.launch()
    for queue in queues:
        DBOS.register_queue(queue, worker_concurrency=1, polling_interval_sec=_QUEUE_POLL_SECONDS, on_conflict="always_update")


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """That someone cancelled a job is no error of the worker's; DBOS logs it as one."""
    return record.exc_info is None or not isinstance(record.exc_info[1], dbos_error.DBOSAwaitedWorkflowCancelledError)


def _register(name: str, work: Callable[[str], None]) -> None:
    """A workflow of one step; the step is tried again when the database fails it."""

    @DBOS.step(name=name, retries_allowed=True, interval_seconds=2.0)
    def step(resource_id: str) -> None:
        work(resource_id)

    @DBOS.workflow(name=name, max_recovery_attempts=None)
    def workflow(resource_id: str) -> None:
        step(resource_id)


def _watch(database: Database, settings: Settings, worker_id: str, stop: StopSignal) -> None:
    """Show that this worker lives, and look after the jobs of those that don't, until `stop`."""
    observer = workers.Observer(settings.worker_lease_seconds)
    while not stop.wait(0):
        try:
            with database.writing() as session:
                still_in = workers.beat(session, worker_id)
                observer.drop_dead(session, worker_id)
            if not still_in:
                _log.error("worker %s was given up for dead; it ends, and its jobs go on elsewhere", worker_id)
                os._exit(1)
            _take_over(database)
        except OperationalError as error:
            _log.warning("the database does not answer: %s", error.orig)
        stop.wait(settings.worker_lease_seconds / _BEATS_PER_LEASE)


def _take_over(database: Database) -> None:
    """Put the jobs of every worker that is not alive back on their queues. Repeating it changes nothing."""
    # Jobs first: whoever has one registered before taking it, so a worker that starts right now is not mistaken for a dead one.
    pending = DBOS.list_workflows(status="PENDING", load_input=False, load_output=False)
    with database.reading() as session:
        alive = {row.id for row in workers.list_workers(session)}
    dead = {str(workflow.executor_id) for workflow in pending} - alive
    if dead:
        _log.warning("taking over the jobs of %s", ", ".join(sorted(dead)))
        DBOS._recover_pending_workflows(sorted(dead))


if __name__ == "__main__":
    die_with_parent(signal.SIGTERM)
    run_worker(sys.argv[1])
