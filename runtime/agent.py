"""`python -m emplace.runtime.agent RANKS LOGS MODULE ARGUMENTS...`: imports a module once, and runs its main() in forks of itself, the ranks.

torch and TorchRec take seconds to import, a fork takes milliseconds. To a rank it is as under torchrun: its environment says who it is and
where the ranks meet, and names the file for what it raises (torch's `record`). Neither the ranks nor the agent outlive their parent.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import BinaryIO

from emplace.hardware.gpus import read_gpus
from emplace.runtime.failure import ERROR_FILE, LOG_FILE, exit_line
from emplace.runtime.process import die_with, die_with_parent, sigterm_as_exit
from emplace.runtime.start import import_large

_POLL_S = 0.1
_HOST = "127.0.0.1"


def main() -> None:
    die_with_parent(signal.SIGTERM)
    count, logs, sys.argv = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    if not read_gpus():  # FBGEMM's import starts CUDA, which a fork can't go on with
        import_large(sys.argv[0])
    meeting = socket.create_server((_HOST, 0), backlog=count)
    port = meeting.getsockname()[1]
    ranks = [_started(logs / str(rank), _environment(rank, count, port)) for rank in range(count)]
    store = _store(meeting.detach(), port)
    with sigterm_as_exit():
        failures = _watch(ranks)
    del store  # the ranks needed it until now
    print("\n".join(failures))
    sys.exit(len(failures) > 0)


def _started(folder: Path, environment: dict[str, str]) -> BaseProcess:
    """A rank. What it prints and what it raises is found in the folder."""
    folder.mkdir(parents=True)
    environment["TORCHELASTIC_ERROR_FILE"] = str(folder / ERROR_FILE)
    with (folder / LOG_FILE).open("wb") as log:
        rank = get_context("fork").Process(target=_run_rank, args=(os.getpid(), log, environment))
        rank.start()
    return rank


def _run_rank(agent: int, log: BinaryIO, environment: dict[str, str]) -> None:
    die_with(agent, signal.SIGKILL)
    os.setsid()  # where Linux shares cores out by session (sched(7), autogroup), each rank gets a share of its own
    os.dup2(log.fileno(), sys.stdout.fileno())
    os.dup2(log.fileno(), sys.stderr.fileno())
    os.environ |= environment
    import_large(sys.argv[0]).main()


def _environment(rank: int, count: int, port: int) -> dict[str, str]:
    """What torch wants to know: who a rank is, and where it meets the others."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": _HOST,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def _store(listening: int, port: int) -> object:
    """Where the ranks meet, for as long as it is kept. It has threads, so no fork may come after it."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch does not say that it exports it

    return TCPStore(_HOST, port, is_master=True, wait_for_workers=False, master_listen_fd=listening)


def _watch(ranks: Sequence[BaseProcess]) -> list[str]:
    """Wait for the ranks, and once one has failed end the others; a line for each that failed by itself."""
    try:
        while None in (codes := [rank.exitcode for rank in ranks]) and not any(codes):
            time.sleep(_POLL_S)
        if any(codes):
            time.sleep(_POLL_S)  # for a rank whose end another one noticed before this process did
        return [exit_line(number, rank.exitcode) for number, rank in enumerate(ranks) if rank.exitcode]
    finally:
        for rank in ranks:
            rank.kill()
        for rank in ranks:
            rank.join()


if __name__ == "__main__":
    main()
