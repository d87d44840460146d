"""A worker that is killed at a moment of its first job: python -m tests.app.jobs.programs.dying_worker WORKER_ID.

Moments are read line by line. For each a worker is forked, which need not import all that this one has, and how it ended is printed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from emplace.app.database import jobs
from emplace.app.jobs import work, worker


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def then_die(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> None:
        function(*arguments, **options)
        die()

    return call


MOMENTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "taken off its queue": (work.Worker, "do", die),
    "being taken up": (jobs, "take_up", then_die(jobs.take_up)),
    "taken up": (work, "run_child", die),
    "being finished": (jobs, "finish", then_die(jobs.finish)),
    "finished": (work.Worker, "do", then_die(work.Worker.do)),
}
"""What is replaced by what. Within a transaction (being ...) what was done before is lost."""

LONGEST_S = 60
"""A worker whose moment does not come ends then."""


def run_until(worker_id: str, moment: str) -> int:
    """Runs a worker that dies at this moment; its exit status, negative for a signal."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    owner, name, deadly = MOMENTS[moment]
    setattr(owner, name, deadly)
    signal.alarm(LONGEST_S)
    worker.run_worker(worker_id)
    os._exit(0)


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_until(sys.argv[1], line.strip()), flush=True)
