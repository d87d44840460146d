"""Finding the root cause in what torchrun leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

from emplace.runtime.failure import DISK_FULL, root_cause

SUMMARY = """
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 4242)
"""


def _error(logs: Path, rank: int, message: str, at: int) -> None:
    folder = logs / "run" / "attempt_0" / str(rank)
    folder.mkdir(parents=True)
    content = {"message": {"message": message, "extraInfo": {"timestamp": str(at)}}}
    (folder / "error.json").write_text(json.dumps(content))


def test_a_signal_comes_before_what_its_peers_raise(tmp_path: Path) -> None:
    _error(tmp_path, 0, "RuntimeError: Connection closed by peer", 10)
    cause = root_cause(tmp_path, SUMMARY.format(rank=0, code=1) + SUMMARY.format(rank=3, code=-9))
    assert cause.rank == 3
    assert cause.message.startswith("rank 3 was killed by SIGKILL")


def test_sigterm_is_the_agents_own(tmp_path: Path) -> None:
    _error(tmp_path, 1, "ValueError: bad", 10)
    assert root_cause(tmp_path, SUMMARY.format(rank=0, code=-15)).rank == 1


def test_a_lost_peer_is_no_cause_even_when_reported_first(tmp_path: Path) -> None:
    _error(tmp_path, 0, "RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:1", 5)
    _error(tmp_path, 1, "MemoryError: no room", 6)
    assert root_cause(tmp_path, "").message == "rank 1 failed: MemoryError: no room"


def test_the_earliest_error_wins(tmp_path: Path) -> None:
    _error(tmp_path, 0, "ValueError: second", 6)
    _error(tmp_path, 1, "ValueError: first", 5)
    assert root_cause(tmp_path, "").rank == 1


def test_a_thread_that_could_not_start_says_why(tmp_path: Path) -> None:
    _error(tmp_path, 1, "RuntimeError: Resource temporarily unavailable", 5)
    assert root_cause(tmp_path, "").message.endswith("no more threads: memory, or the number of processes, is limited")


def test_an_exit_code_is_better_than_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "attempt_0" / "2"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text("first line\nlast words\n")
    cause = root_cause(tmp_path, SUMMARY.format(rank=2, code=3))
    assert cause.rank == 2
    assert "exit code 3" in cause.message
    assert "last words" in cause.message


def test_an_abort_says_why_on_stderr(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "attempt_0" / "1"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text("malloc(): invalid size\n")
    assert root_cause(tmp_path, SUMMARY.format(rank=1, code=-6)).message == "rank 1 was killed by SIGABRT\nmalloc(): invalid size"


def test_what_a_rank_raised_is_the_cause_even_if_it_was_killed_afterwards(tmp_path: Path) -> None:
    _error(tmp_path, 1, "ValueError: bad", 10)
    assert root_cause(tmp_path, SUMMARY.format(rank=1, code=-6)).message == "rank 1 failed: ValueError: bad"


def test_a_launch_that_never_reached_a_rank(tmp_path: Path) -> None:
    cause = root_cause(tmp_path, "address already in use")
    assert cause.rank is None
    assert "address already in use" in cause.message


def test_a_full_disk_is_told_by_an_exit_code(tmp_path: Path) -> None:
    """Nothing else could be written: the error files are cut short."""
    _error(tmp_path, 0, "RuntimeError: Connection closed by peer", 10)
    cut_short = tmp_path / "run" / "attempt_0" / "1"
    cut_short.mkdir(parents=True)
    (cut_short / "error.json").write_text('{"message": {"mess')
    cause = root_cause(tmp_path, SUMMARY.format(rank=0, code=1) + SUMMARY.format(rank=1, code=DISK_FULL))
    assert cause.rank == 1
    assert "no space left" in cause.message
