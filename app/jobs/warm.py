"""Keeps a process with the solver in memory (app.steps.warm), and has it fork a child for each piece of work.

Its imports take longer than a small plan. One that ends is replaced; the children of one that ends are ended by the kernel.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from emplace.app.jobs.child_errors import ChildLost
from emplace.placement.errors import ToolError
from emplace.runtime.process import PARENT_VARIABLE, end_group

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_SOON_SECONDS, _MAX_PAUSE_SECONDS = 10.0, 30.0
_PATIENCE_SECONDS = 60.0
"""How long an order waits for a process that takes it."""
_TOLD_BYTES = 256


class ForkedChild:
    """A child of the warm process, with the face of subprocess.Popen. `telling` brings its id, then its status."""

    def __init__(self, pid: int, stdout: IO[bytes], stderr: IO[bytes], telling: socket.socket) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None
        self.is_lost = False
        """Whether the warm process has ended, which ended this one."""
        self._telling = telling
        self._poller = select.poll()  # select itself takes no descriptor above 1023
        self._poller.register(telling, select.POLLIN)

    def poll(self) -> int | None:
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("emplace.app.steps.warm", timeout or 0.0)
        return status

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and self._poller.poll(None if timeout_s is None else 1000 * timeout_s):
            told = _told(self._telling)
            # Without a word the warm process has ended, and its children were sent SIGTERM by the kernel.
            self.is_lost = told is None
            self.returncode = -signal.SIGTERM if told is None else told["status"]
        return self.returncode


class WarmProcess:
    """Runs from `start` to `stop`, or within `with`. Its parent is a thread that lives as long: with that the kernel ends it, too."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._orders: socket.socket | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._keep_running, name="warm-process", daemon=True)

    def __enter__(self) -> WarmProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the process and wait for it. What it has forked is ended, too."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def forked(self, step: str, source: Path, target: Path, *, patience_s: float) -> Iterator[ForkedChild]:
        """A child that does app.steps.<step>, in the folder of its input; its whole process group is ended on the way out.

        Raises ChildLost, ToolError.
        """
        with _socketpair() as (mine, its), _pipe() as (stdout, its_stdout), _pipe() as (stderr, its_stderr):
            order = json.dumps({"step": step, "source": str(source), "target": str(target), "folder": str(source.parent)})
            self._send(order, [its_stdout.fileno(), its_stderr.fileno(), its.fileno()])
            for end in (its_stdout, its_stderr, its):
                end.close()
            told = _told(mine)
            if told is None:
                raise ChildLost(f"the process that does {step} ended before it began")
            child = ForkedChild(told["pid"], stdout, stderr, mine)
            try:
                yield child
            finally:
                end_group(child, patience_s)

    def _send(self, order: str, descriptors: list[int]) -> None:
        """Raises ToolError where no process takes the order."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with self._changed:
            while (left := deadline - time.monotonic()) > 0 and not self._stopping.is_set():
                try:
                    if self._orders is not None:
                        socket.send_fds(self._orders, [order.encode()], descriptors)
                        return
                except OSError:
                    self._orders = None  # it has ended; the next one is on its way
                self._changed.wait(min(left, 1.0))
        raise ToolError("the process that solves does not start; see the log")

    def _keep_running(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            started = time.monotonic()
            with _socketpair(socket.SOCK_SEQPACKET) as (mine, its):
                process = _start(its)
                its.close()
                self._offer(mine)
                try:
                    while process.poll() is None and not self._stopping.wait(_POLL_SECONDS):
                        pass
                finally:
                    self._offer(None)
                    end_group(process, _POLL_SECONDS)
            if not self._stopping.is_set():
                _log.warning("the process that solves ended with status %s; it is started again", process.returncode)
            soon = time.monotonic() - started < _SOON_SECONDS
            pause = min(2 * pause + 0.5, _MAX_PAUSE_SECONDS) if soon else 0.0

    def _offer(self, orders: socket.socket | None) -> None:
        with self._changed:
            self._orders = orders
            self._changed.notify_all()


def _start(orders: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "emplace.app.steps.warm", str(orders.fileno())],
        env=os.environ | {PARENT_VARIABLE: str(os.getpid())},
        stdin=subprocess.DEVNULL,
        pass_fds=[orders.fileno()],
        start_new_session=True,
    )


@contextmanager
def _socketpair(kind: socket.SocketKind = socket.SOCK_STREAM) -> Iterator[tuple[socket.socket, socket.socket]]:
    mine, its = socket.socketpair(socket.AF_UNIX, kind)
    with mine, its:
        yield mine, its


@contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as own, open(writing, "wb", buffering=0) as other:
        yield own, other


def _told(telling: socket.socket) -> dict[str, int] | None:
    """The next word of the warm process about a child; None where there comes none any more."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = telling.recv(1)
        if not chunk:
            return None
        line += chunk
        assert len(line) < _TOLD_BYTES
    told: dict[str, int] = json.loads(line)
    return told
