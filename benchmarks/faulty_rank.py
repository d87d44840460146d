"""A rank to which something happens: main() with the arguments FAULT JOB.json, in a fork of emplace.runtime.agent.

It is emplace.executor.rank; what happens, happens to rank 1 alone, for real, where it would compare updates: all ranks have joined by then.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import torch.distributed as dist

import emplace.executor.rank

VICTIM = 1
CGROUP_VARIABLE = "EMPLACE_FAULTS_CGROUP"
"""A memory cgroup with a limit that the model does not fit in."""
_ROOM_BYTES = 32 * 2**20


def raise_error() -> None:
    raise ValueError("no such row")


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_the_agent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def hang() -> None:
    """Deaf to the agent, as a rank that hangs in a driver is."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def wait() -> None:
    time.sleep(600)


def limit_memory() -> None:
    """No more address space than this: the next large allocation fails."""
    limit = psutil.Process().memory_info().vms + _ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def join_small_cgroup() -> None:
    """The kernel kills it once it holds more than the cgroup may."""
    (Path(os.environ[CGROUP_VARIABLE]) / "cgroup.procs").write_text(str(os.getpid()))


def fill_the_disk() -> None:
    """As a log that nobody watches would."""
    with (Path(os.environ["TMPDIR"]) / "fill").open("wb", buffering=0) as fill:
        for chunk_bytes in (2**20, 2**12, 1):
            try:
                while True:
                    fill.write(b"x" * chunk_bytes)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def raise_on_a_full_disk() -> None:
    """What went wrong can't be written down."""
    fill_the_disk()
    raise_error()


def limit_files() -> None:
    """Less than its report takes: the kernel refuses to write more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**12, 2**12))


FAULTS = {
    "raises": raise_error,
    "killed": kill_itself,
    "agent killed": kill_the_agent,
    "hangs": hang,
    "memory limit": limit_memory,
    "memory killer": join_small_cgroup,
    "disk full": fill_the_disk,
    "raises on a full disk": raise_on_a_full_disk,
    "file too large": limit_files,
    "cancelled": wait,
}


def main() -> None:
    fault = FAULTS[sys.argv.pop(1)]

    def compare_updates(*_: Any) -> list[Any]:
        dist.barrier()
        if dist.get_rank() == VICTIM:
            fault()
        return []

    emplace.executor.rank.compare_updates = compare_updates  # type: ignore[assignment, attr-defined]
    emplace.executor.rank.main()
