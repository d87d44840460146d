"""The life of a process that this one starts: it dies with the thread that started it, and nothing of its group is left.

The kernel tells a process of its parent's end only where the process has asked for it. So each program that is started here calls
`die_with_parent` first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

PARENT_VARIABLE = "EMPLACE_PARENT_PID"
_PR_SET_PDEATHSIG = 1


@contextmanager
def running(
    module: str,
    arguments: Sequence[str],
    *,
    patience_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m MODULE ARGUMENTS...`, which leads a session and a process group of its own, and is ended on the way out.

    It runs in `folder`, with `environment` on top of this process's. `stdout` and `stderr` are those of subprocess.Popen. The calling
    thread must live as long as the process: the kernel ends the process when that thread ends.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=os.environ | (environment or {}) | {PARENT_VARIABLE: str(os.getpid())},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            end_group(process, patience_s)


class GroupLeader(Protocol):
    """A child process that leads a process group; subprocess.Popen is one."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def end_group(process: GroupLeader, patience_s: float) -> None:
    """Leave nothing of the process's group, whatever state it is in: SIGTERM first, and SIGKILL to what is left of it."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, kind: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, kind)


def die_with_parent(kind: signal.Signals) -> None:
    """Have the kernel send `kind` to this process when the one that started it ends (Linux prctl(2)); exit now if it already has."""
    die_with(int(os.environ.get(PARENT_VARIABLE) or os.getppid()), kind)


def die_with(parent_pid: int, kind: signal.Signals) -> None:
    """Do what `die_with_parent` does in a process that was started by other means, by the process `parent_pid`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, kind)
    if os.getppid() != parent_pid:
        sys.exit("the parent process is gone")


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """SIGTERM unwinds the stack, so that everything is cleaned up.

    Only the main thread may set signal handlers, and a handler that the program has set already stays.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
