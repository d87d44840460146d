"""A worker that is killed at a moment of its first job: python -m tests.app.jobs.programs.dying_worker WORKER_ID MOMENT."""

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

if __name__ == "__main__":
    owner, name, deadly = MOMENTS[sys.argv[2]]
    setattr(owner, name, deadly)
    worker.run_worker(sys.argv[1])
