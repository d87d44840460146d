"""Ranks on this machine: started, watched, and none left behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from emplace.hardware.machine import cores_here
from emplace.placement.errors import EmplaceError
from emplace.runtime.failure import root_cause
from emplace.runtime.output import Heard
from emplace.runtime.process import running, sigterm_as_exit
from emplace.runtime.rank_process import kill_ranks, last_seen

_LOGS = "logs"
_POLL_S = 0.1
_PATIENCE_S = 5.0
"""The time that the agent has to end its ranks after SIGTERM; then they are killed with it."""


class RanksFailed(EmplaceError):
    """The ranks ended early. The message is the root cause; `rank` is the one to blame, None where no rank is."""

    def __init__(self, message: str, rank: int | None = None) -> None:
        self.rank = rank
        super().__init__(message)


class RanksTimedOut(RanksFailed):
    """The ranks had not ended when their time was up. The message says what each was last seen doing."""


def run_ranks(program: Sequence[str], ranks: int, folder: Path, limit_s: float, on_poll: Callable[[], None]) -> None:
    """Run main() of the module that `program` begins with, its arguments after it, in `ranks` processes until all have ended well.

    No process survives. Logs and temporary files go under `folder`, where ranks also write who they are (`rank_process.tell_phase`).
    `on_poll` is called several times a second, and may raise to end it all. Raises RanksFailed when a rank fails, RanksTimedOut after
    `limit_s` seconds.
    """
    deadline = time.monotonic() + limit_s
    agent = running(
        "emplace.runtime.agent",
        [str(ranks), str(folder / _LOGS), *program],
        patience_s=_PATIENCE_S,
        environment=_environment(ranks, folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with sigterm_as_exit():
        try:
            with agent as process:
                heard = Heard(process.stdout)
                while process.poll() is None:
                    on_poll()
                    if time.monotonic() > deadline:
                        raise RanksTimedOut(f"did not end within {limit_s:g} s; {last_seen(folder, ranks)}")
                    time.sleep(_POLL_S)
        finally:
            kill_ranks(folder, ranks)
    if killed_by := _signal(process.returncode):
        raise RanksFailed(f"the ranks' parent process was killed by {killed_by.name}, and all ranks with it")
    if process.returncode > 0:
        cause = root_cause(folder / _LOGS, heard.text())
        raise RanksFailed(cause.message, cause.rank)


def threads_per_rank(ranks: int) -> int:
    """Threads of each rank: its share of the cores that this process may use, at least one. Profiles and runs must not differ in it."""
    return max(1, cores_here() // ranks)


def _signal(returncode: int) -> signal.Signals | None:
    """What ended a process. One that cleaned up before it went (`sigterm_as_exit`) says it as a shell does."""
    number = -returncode if returncode < 0 else returncode - 128
    return signal.Signals(number) if number > 0 else None


def _environment(ranks: int, folder: Path) -> dict[str, str]:
    """Environment variables of the ranks. They import the same emplace as this process, wherever they run."""
    root = str(Path(__file__).absolute().parents[2])
    python_path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {"OMP_NUM_THREADS": str(threads_per_rank(ranks)), "PYTHONPATH": python_path, "TMPDIR": str(folder)}
