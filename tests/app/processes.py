"""Worker processes of the tests, and what runs below them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], timeout_s: float) -> T:
    """The first true value of `condition`."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.1)  # often enough, and little of what the processes that are waited for need
    return value


class WorkerProcess:
    """`python -m emplace.app.jobs.worker`, on the database of EMPLACE_DATABASE_URL."""

    def __init__(self, worker_id: str, log: Path) -> None:
        self.worker_id, self.log = worker_id, log
        with log.open("wb") as output:
            self._process: subprocess.Popen[Any] = subprocess.Popen(
                [sys.executable, "-m", "emplace.app.jobs.worker", worker_id], stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._process.kill()
        self._process.wait(10)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self._process.terminate()
        return self._process.wait(30)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def steps(self) -> list[int]:
        """The child programs below this worker."""
        return [pid for pid in step_processes() if _parent(pid) == self.pid]


MARK = "TESTS_OF_EMPLACE"
"""In the environment of every process that these tests start, with their process id."""


def step_processes() -> list[int]:
    """Every running child program (app.steps) that these tests brought about."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if (
                any(argument.startswith(b"emplace.app.steps.") for argument in arguments)
                and f"{MARK}={os.getpid()}".encode() in environment
            ):
                found.append(int(folder.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]


def _parent(pid: int) -> int | None:
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def children_of(pid: int, module: str) -> list[int]:
    """The children of a process that were started as `python -m MODULE`."""
    children = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and _parent(int(folder.name)) == pid]
    return [child for child in children if module.encode() in _arguments(child)]


def _arguments(pid: int) -> list[bytes]:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
