"""Keeps one worker process running beside the service: whatever ends it, it starts again and goes on with its jobs."""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time

from emplace.app.jobs.worker import STOPPED, new_worker_id
from emplace.runtime.process import running

_log = logging.getLogger(__name__)

_STOP_SECONDS = 40.0
_SOON_SECONDS, _PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 10.0, 0.1, 30.0
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, STOPPED)
"""How a worker ends that someone ended. It can start again at once; one that fails by itself may fail again."""


class WorkerSupervisor:
    """Starts the worker again under the same id, so it takes its jobs up at once instead of after a lease."""

    def __init__(self) -> None:
        self.worker_id = new_worker_id()
        self._stopping = threading.Event()
        # The thread outlives the worker: the kernel ends a child when the thread that started it ends.
        self._thread = threading.Thread(target=self._keep_running, name="worker-supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the worker and wait for it."""
        self._stopping.set()
        self._thread.join()

    def _keep_running(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            started = time.monotonic()
            # In a session of its own: Ctrl-C is for the service, which then ends the worker.
            with running("emplace.app.jobs.worker", [self.worker_id], patience_s=_STOP_SECONDS) as process:
                self._wait(process)
            if not self._stopping.is_set():
                _log.warning("the worker ended with status %s; it is started again", process.returncode)
            failed_soon = process.returncode not in _FROM_OUTSIDE and time.monotonic() - started < _SOON_SECONDS
            pause = min(2 * pause + 0.5, _MAX_PAUSE_SECONDS) if failed_soon else _PAUSE_SECONDS

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the worker has ended or is to be ended."""
        while process.poll() is None and not self._stopping.wait(0.1):
            pass
