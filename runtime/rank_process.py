"""A rank's process: what it says of itself in the folder of its launch, who reads that, and how it leaves."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import psutil

from emplace.placement.document import Document
from emplace.placement.errors import InvalidDocument
from emplace.placement.reading import read_file
from emplace.runtime.failure import DISK_FULL
from emplace.runtime.files import write_whole

_KILL_S = 5.0


class RankProcess(Document):
    """Who a rank is and what it is doing, rewritten as it goes on."""

    rank: int
    pid: int
    started_at: float
    """When the process started, as the system tells it: with the pid it names one process for good."""
    phase: str


def process_path(folder: Path, rank: int) -> Path:
    """Where a rank says who it is, in the folder of its launch."""
    return folder / f"process-rank{rank}.json"


def tell_phase(folder: Path, rank: int, phase: str) -> None:
    """Write down that this process is `rank` and what it is doing now. Raises OSError."""
    process = psutil.Process()
    me = RankProcess(rank=rank, pid=process.pid, started_at=process.create_time(), phase=phase)
    write_whole(process_path(folder, rank), me.canonical_json())


def last_seen(folder: Path, ranks: int) -> str:
    """What each of `ranks` ranks was last seen doing, in words."""
    phases = {process.rank: process.phase for process in _processes(folder, ranks)}
    return ", ".join(f"rank {rank} was last seen {phases.get(rank, 'starting')}" for rank in range(ranks))


def kill_ranks(folder: Path, ranks: int) -> None:
    """Kill the ranks that are still alive, by what they wrote down about themselves."""
    killed = []
    for said in _processes(folder, ranks):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(said.pid)
            # A pid may have been given to someone else since.
            if process.create_time() == said.started_at:
                process.kill()
                killed.append(process)
    psutil.wait_procs(killed, _KILL_S)


@contextmanager
def full_disk_as_exit_code() -> Iterator[None]:
    """A rank that finds the disk full, in its work or in writing down why it failed, leaves with DISK_FULL. Raises all other OSErrors."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # Cut short, the agent could not read it, and would fail itself.
        Path(os.environ["TORCHELASTIC_ERROR_FILE"]).unlink(missing_ok=True)
        leave(DISK_FULL)


def leave(exit_code: int = os.EX_OK) -> NoReturn:
    """End this rank at once, without the interpreter's own shutdown.

    A thread of gloo that wants the interpreter's lock during that aborts the process (github.com/pytorch/pytorch, pull request
    179291): about one profile in ten, on a busy machine.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def _processes(folder: Path, ranks: int) -> list[RankProcess]:
    """What each rank last said about itself; nothing of those that have not started."""
    said = []
    for rank in range(ranks):
        with suppress(InvalidDocument):
            said.append(read_file(process_path(folder, rank), RankProcess))
    return said
