"""Starts the ranks with torchrun, watches them, and leaves none behind, however this process ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from emplace.placement.errors import ToolError
from emplace.runtime.failure import root_cause

_POLL_S = 0.2
_STOP_S = 15.0
_LOGS, _AGENT_LOG = "logs", "agent.log"


def run_ranks(
    program: str, arguments: list[str], ranks: int, threads: int, workdir: Path, on_poll: Callable[[], None], limit_s: float
) -> None:
    """Run module `program` on `ranks` ranks with `threads` threads each, until all have ended; `on_poll` is called meanwhile.

    Raises ToolError with the root cause when a rank fails, or when `limit_s` seconds have passed.
    """
    command = [
        sys.executable,
        "-m",
        "emplace.runtime.agent",
        str(os.getpid()),
        "--standalone",
        f"--nproc-per-node={ranks}",
        "--max-restarts=0",
    ]
    command += [f"--log-dir={workdir / _LOGS}", "--redirects=3", "-m", "emplace.runtime.start", program, *arguments]
    root = str(Path(__file__).absolute().parents[2])
    python_path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": python_path}
    deadline = time.monotonic() + limit_s
    with (workdir / _AGENT_LOG).open("wb") as log, _sigterm_as_exit():
        agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            while agent.poll() is None:
                if time.monotonic() > deadline:
                    raise ToolError(f"the measurement did not end within {limit_s:.0f} s")
                on_poll()
                time.sleep(_POLL_S)
        finally:
            _stop(agent)
    if agent.returncode != 0:
        raise ToolError(
            f"the measurement failed: {root_cause(workdir / _LOGS, (workdir / _AGENT_LOG).read_text(errors='replace')).message}"
        )
    on_poll()


def _stop(agent: subprocess.Popen[bytes]) -> None:
    """The agent ends its workers on SIGTERM; if it must be killed, they die with it (profiler.agent)."""
    if agent.poll() is None:
        agent.terminate()
        try:
            agent.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            agent.kill()
    agent.wait()


@contextlib.contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """SIGTERM unwinds the stack, so that everything is cleaned up. Only the main thread may set signal handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
