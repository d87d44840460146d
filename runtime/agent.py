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
from pathlib import Path
from typing import TYPE_CHECKING

from emplace.hardware.gpus import read_gpus
from emplace.runtime.failure import ERROR_FILE, LOG_FILE, exit_line
from emplace.runtime.process import die_with, die_with_parent, sigterm_as_exit
from emplace.runtime.start import import_large

if TYPE_CHECKING:
    from torch.distributed import TCPStore

_POLL_S = 0.1
_HOST = "127.0.0.1"


def main() -> None:
    die_with_parent(signal.SIGTERM)
    count, logs, sys.argv = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    if not read_gpus():  # FBGEMM's import starts CUDA, which a fork can't go on with
        import_large(sys.argv[0])
    agent, ranks = os.getpid(), dict[int, int]()
    with socket.create_server((_HOST, 0), backlog=count) as meeting:
        port = meeting.getsockname()[1]
        for rank in range(count):
            if (pid := _fork(logs / str(rank) / LOG_FILE)) == 0:
                die_with(agent, signal.SIGKILL)
                meeting.close()
                os.environ |= _environment(rank, count, port) | {"TORCHELASTIC_ERROR_FILE": str(logs / str(rank) / ERROR_FILE)}
                import_large(sys.argv[0]).main()
                return
            ranks[rank] = pid
        store = _store(meeting.detach(), port)
    with sigterm_as_exit():
        codes = _watch(ranks)
    del store  # the ranks needed it until now
    failed = [exit_line(rank, code) for rank, code in codes.items() if code != 0]
    print("\n".join(failed))
    sys.exit(len(failed) > 0)


def _fork(log: Path) -> int:
    """What os.fork() returns. What the fork prints goes to `log`."""
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        if (pid := os.fork()) == 0:
            os.dup2(file.fileno(), sys.stdout.fileno())
            os.dup2(file.fileno(), sys.stderr.fileno())
        return pid


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


def _store(listening: int, port: int) -> TCPStore:
    """Where the ranks meet. It has threads, so no fork may come after it."""
    from torch.distributed import TCPStore

    return TCPStore(_HOST, port, is_master=True, wait_for_workers=False, master_listen_fd=listening)


def _watch(ranks: dict[int, int]) -> dict[int, int]:
    """Wait for the processes of the ranks; the exit codes of those that ended by themselves. Once one fails, the others are ended."""
    codes = dict[int, int]()
    try:
        while len(codes) < len(ranks):
            failed = any(codes.values())
            time.sleep(_POLL_S)
            codes |= {rank: code for rank in ranks.keys() - codes.keys() if (code := _exit_code(ranks[rank], os.WNOHANG)) is not None}
            if failed:  # a rank whose end another one noticed first has had the time to end, too
                break
        return codes
    finally:
        for pid in (ranks[rank] for rank in ranks.keys() - codes.keys()):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _exit_code(pid: int, options: int) -> int | None:
    """Negative for a signal; None while it runs."""
    ended, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if ended else None


if __name__ == "__main__":
    main()
