"""Why a launch failed: the first thing that went wrong, not what its peers said when they lost it."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

_EXIT_LINE = re.compile(r"^rank (\d+) ended with exit code (-?\d+)$", re.MULTILINE)
_LOST_PEER = re.compile(r"closed by peer|reset by peer|broken pipe|timed out waiting|remote process exited|nccl.*abort", re.IGNORECASE)
_NO_THREAD = os.strerror(errno.EAGAIN)
"""All that a thread says that could not be started."""
_SHOWN_LINES = 15

ERROR_FILE, LOG_FILE = "error.json", "output.log"
"""What a rank raised and what it printed, in a folder of its own among the logs, which is named by its number."""

DISK_FULL = os.EX_IOERR
"""The exit code of a rank that found the disk full: it could not write down why it failed."""


@dataclass(frozen=True)
class Cause:
    """Why a launch failed. `rank` is None when no rank is to blame, such as when the launch itself failed."""

    message: str
    rank: int | None = None


@dataclass(frozen=True)
class _Raised:
    rank: int
    message: str
    at: int
    """Seconds since the epoch."""

    @property
    def lost_peer(self) -> bool:
        """Whether it only reports that another rank is gone."""
        return bool(_LOST_PEER.search(self.message))


def exit_line(rank: int, code: int) -> str:
    """How the agent says in its summary that a rank ended; a negative code is a signal."""
    return f"rank {rank} ended with exit code {code}"


def root_cause(logs: Path, agent_log: str) -> Cause:
    """Why a launch failed, from the error files (one per rank that raised) and the exit codes in the agent's summary.

    A rank that a signal killed is to blame first, unless it had raised before: its peers only report lost connections. Then comes the
    earliest error that is not such a report, then a full disk, then a rank that ended without a word, then any error, then the agent's last
    words.
    """
    exit_codes = {int(rank): int(code) for rank, code in _EXIT_LINE.findall(agent_log)}
    raised = sorted(_raised(logs), key=lambda error: (error.lost_peer, error.at, error.rank))
    silent = exit_codes.keys() - {error.rank for error in raised}
    killed = {rank: -exit_codes[rank] for rank in silent if exit_codes[rank] < 0}
    if killed:
        rank = min(killed)
        return Cause(f"rank {rank} was killed by {_killed_by(killed[rank], logs, rank)}", rank)
    full = [rank for rank, code in exit_codes.items() if code == DISK_FULL]
    if full and all(error.lost_peer for error in raised):
        return Cause(f"rank {min(full)} failed: no space left on the disk of the run's folder", min(full))
    if silent and all(error.lost_peer for error in raised):
        rank = min(silent)
        return Cause(f"rank {rank} ended with exit code {exit_codes[rank]}{_last_words(logs, rank)}", rank)
    if raised:
        return Cause(f"rank {raised[0].rank} failed: {raised[0].message}{_hint(raised[0].message)}", raised[0].rank)
    return Cause(f"the ranks could not be started{_tail(agent_log)}")


def _hint(message: str) -> str:
    """What is behind an error that does not say it."""
    return "; the system starts no more threads: memory, or the number of processes, is limited" if _NO_THREAD in message else ""


def _killed_by(number: int, logs: Path, rank: int) -> str:
    name = signal.Signals(number).name
    return f"{name}; the kernel sends it when memory runs out" if number == signal.SIGKILL else name + _last_words(logs, rank)


def _raised(logs: Path) -> list[_Raised]:
    """The errors that ranks raised."""
    errors = []
    for path in logs.glob(f"*/{ERROR_FILE}"):
        try:
            message = json.loads(path.read_text(encoding="utf-8"))["message"]
        except json.JSONDecodeError:
            continue  # cut short by a full disk
        errors.append(_Raised(int(path.parent.name), message["message"], int(message["extraInfo"]["timestamp"])))
    return errors


def _last_words(logs: Path, rank: int) -> str:
    """The end of what a rank printed: an abort in native code says why there, and nowhere else."""
    return _tail((logs / str(rank) / LOG_FILE).read_text(errors="replace"))


def _tail(text: str) -> str:
    """The last lines, each after a line break."""
    return "".join(f"\n{line}" for line in text.splitlines()[-_SHOWN_LINES:])
