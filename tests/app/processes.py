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
    deadline, pause_s = time.monotonic() + timeout_s, 0.005
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.1)  # often enough, and little of what the processes that are waited for need
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
        return [pid for pid in step_processes() if pid in descendants_of(self.pid)]


WARM = b"emplace.app.steps.warm"
MARK = "TESTS_OF_EMPLACE"
"""In the environment of every process that these tests start, with their process id."""


def step_processes() -> list[int]:
    """Every running child program (app.steps) that these tests brought about; not those that are warm and wait for work."""
    return [pid for pid in _pids() if _is_step(pid)]


def _is_step(pid: int) -> bool:
    if not any(argument.startswith(b"emplace.app.steps.") for argument in _arguments(pid)):
        return False
    if WARM in _arguments(pid) and WARM not in _arguments(_parent(pid) or 0):  # a fork that is at work has it for a parent
        return False
    try:
        return f"{MARK}={os.getpid()}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is another user's
        return False


def is_alive(pid: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat[0] not in "ZX"


def children_of(pid: int, module: str) -> list[int]:
    """The children of a process that were started as `python -m MODULE`."""
    return [child for child in _pids() if _parent(child) == pid and module.encode() in _arguments(child)]


def descendants_of(pid: int) -> set[int]:
    """Everything below a process."""
    children = {child for child in _pids() if _parent(child) == pid}
    return children.union(*map(descendants_of, children))


def cpu_seconds(pid: int) -> float:
    """How long a process has worked; 0 of one that has ended."""
    stat = _stat(pid)
    return 0.0 if stat is None else (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return None if stat is None else int(stat[1])


def _stat(pid: int) -> list[str] | None:
    """The state, the parent and what else stands behind the name in /proc/PID/stat; None of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it ended before the file was opened, or before it was read
        return None


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
