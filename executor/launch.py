"""Starts ranks with torchrun, watches them, and leaves none behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from emplace.executor.errors import ExecutionCancelled, ExecutionFailed
from emplace.executor.job import RankProcess, job_path, process_path, progress_path
from emplace.placement.errors import InvalidDocument
from emplace.placement.reading import read_file
from emplace.runtime.failure import root_cause

LOGS = "logs"
_POLL_S = 0.1
_PATIENCE_S = 5.0
"""For the agent to end its workers after SIGTERM; more, and it is killed."""


def _tell_nobody(_: str) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Launch:
    """How plans are trained: for how long, where, on what, and who hears of it."""

    steps: int
    """Measured ones, after the warm-up."""
    seed: int
    """Decides the batches that are drawn."""
    workdir: Path
    """Temporary files go under it and are removed."""
    timeout_s: float
    report: Callable[[str], None] = _tell_nobody
    """Gets lines of progress."""
    should_stop: Callable[[], bool] = _never
    """Asked several times a second; the run is cancelled once it says so."""
    program: Sequence[str] = ("-m", "emplace.runtime.start", "emplace.executor.rank")
    """What each rank runs, a job's file as its last argument."""
    rounds: int = 1
    """With several, the plans take turns, so that whatever else the machine does slows all of them alike: all are in memory at
    once, and each one's peak is that of its warm-up."""
    trace: Path | None = None
    """The file whose examples to train on; drawn batches without it."""


def launch_ranks(launch: Launch, ranks: int, folder: Path) -> None:
    """Run `python -m torch.distributed.run ... PROGRAM JOB` with `ranks` local ranks on the job in `folder` until all end well.

    Lines that ranks append to the folder's progress file are reported. Raises ExecutionFailed with the root cause when a rank
    fails or time runs out, ExecutionCancelled once the launch is to stop. No process survives.
    """
    deadline = time.monotonic() + launch.timeout_s
    told = 0
    agent = subprocess.Popen(
        _command(launch.program, ranks, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(ranks, folder),
    )
    said = _Said(agent)
    try:
        while agent.poll() is None:
            told = _pass_on(folder, told, launch.report)
            if launch.should_stop():
                raise ExecutionCancelled("the run was cancelled")
            if time.monotonic() > deadline:
                raise ExecutionFailed(f"the run did not end within {launch.timeout_s:g} s; {_phases(folder, ranks)}")
            time.sleep(_POLL_S)
    finally:
        _end(agent, folder, ranks)
    _pass_on(folder, told, launch.report)
    if agent.returncode < 0:
        raise ExecutionFailed(f"torchrun was killed by {signal.Signals(-agent.returncode).name}, and all ranks with it")
    if agent.returncode > 0:
        cause = root_cause(folder / LOGS, said.text())
        raise ExecutionFailed(cause.message, cause.rank)


class _Said:
    """What the agent prints, read while it runs: from a pipe, because a file would be of no use once the disk is full."""

    def __init__(self, agent: subprocess.Popen[bytes]) -> None:
        self._agent, self._chunks = agent, list[bytes]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def text(self) -> str:
        """All of it. The agent has ended; what it started may still hold the pipe, and is not waited for."""
        self._reader.join(_PATIENCE_S)
        return b"".join(self._chunks).decode(errors="replace")

    def _read(self) -> None:
        assert self._agent.stdout is not None
        with self._agent.stdout as pipe:
            while chunk := os.read(pipe.fileno(), 2**16):
                self._chunks.append(chunk)


def threads_per_rank(ranks: int) -> int:
    """Every rank gets its share of the cores that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) // ranks)


def _command(program: Sequence[str], ranks: int, folder: Path) -> list[str]:
    # profiler.agent is torch.distributed.run that ends when this process does.
    torchrun = [
        sys.executable,
        "-m",
        "emplace.runtime.agent",
        str(os.getpid()),
        "--standalone",
        "--max-restarts",
        "0",
        "--nproc-per-node",
        str(ranks),
    ]
    return [*torchrun, "--log-dir", str(folder / LOGS), "--redirects", "3", *program, str(job_path(folder))]


def _environment(ranks: int, folder: Path) -> dict[str, str]:
    root = str(Path(__file__).absolute().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"OMP_NUM_THREADS": str(threads_per_rank(ranks)), "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder)}


def _pass_on(folder: Path, told: int, report: Callable[[str], None]) -> int:
    """Report whole lines after position `told`; returns the new position."""
    path = progress_path(folder)
    if not path.exists():
        return told
    with path.open("rb") as progress:
        progress.seek(told)
        fresh = progress.read()
    whole = fresh[: fresh.rfind(b"\n") + 1]
    for line in whole.decode("utf-8").splitlines():
        report(line)
    return told + len(whole)


def _processes(folder: Path, ranks: int) -> list[RankProcess]:
    """What each rank last said about itself."""
    said = []
    for rank in range(ranks):
        with suppress(InvalidDocument):
            said.append(read_file(process_path(folder, rank), RankProcess))
    return said


def _phases(folder: Path, ranks: int) -> str:
    phases = {process.rank: process.phase for process in _processes(folder, ranks)}
    return ", ".join(f"rank {rank} was last seen {phases.get(rank, 'starting')}" for rank in range(ranks))


def _end(agent: subprocess.Popen[bytes], folder: Path, ranks: int) -> None:
    """SIGTERM lets the agent end its workers; what is left after that is killed by the pids that ranks wrote down."""
    if agent.poll() is None:
        agent.terminate()
        with suppress(subprocess.TimeoutExpired):
            agent.wait(_PATIENCE_S)
        agent.kill()
    agent.wait()
    for said in _processes(folder, ranks):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(said.pid)
            # A pid may have been given to someone else since; with its start time it names one process.
            if process.create_time() == said.started_at:
                process.kill()
                process.wait(_PATIENCE_S)
