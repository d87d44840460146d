"""Finding the root cause in what ranks and their agent leave behind."""

from __future__ import annotations

import json
from pathlib import Path

from emplace.runtime.failure import DISK_FULL, ERROR_FILE, LOG_FILE, exit_line, root_cause


def _error(logs: Path, rank: int, message: str, at: int) -> None:
    folder = logs / str(rank)
    folder.mkdir()
    content = {"message": {"message": message, "extraInfo": {"timestamp": str(at)}}}
    (folder / ERROR_FILE).write_text(json.dumps(content))


def test_a_signal_comes_before_what_its_peers_raise(tmp_path: Path) -> None:
    _error(tmp_path, 0, "RuntimeError: Connection closed by peer", 10)
    cause = root_cause(tmp_path, f"{exit_line(0, 1)}\n{exit_line(3, -9)}")
    assert cause.rank == 3
    assert cause.message.startswith("rank 3 was killed by SIGKILL")


def test_sigterm_is_a_signal_like_others(tmp_path: Path) -> None:
    """The agent sends none to ranks."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / LOG_FILE).write_text("")
    _error(tmp_path, 1, "RuntimeError: Connection closed by peer", 10)
    assert root_cause(tmp_path, exit_line(0, -15)).message == "rank 0 was killed by SIGTERM"


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
    folder = tmp_path / "2"
    folder.mkdir()
    (folder / LOG_FILE).write_text("first line\nlast words\n")
    cause = root_cause(tmp_path, exit_line(2, 3))
    assert cause.rank == 2
    assert "exit code 3" in cause.message
    assert "last words" in cause.message


def test_a_rank_that_ended_without_a_word_comes_before_what_its_peers_raise(tmp_path: Path) -> None:
    _error(tmp_path, 0, "RuntimeError: Connection closed by peer", 10)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / LOG_FILE).write_text("last words\n")
    cause = root_cause(tmp_path, f"{exit_line(0, 1)}\n{exit_line(1, 3)}")
    assert (cause.rank, cause.message) == (1, "rank 1 ended with exit code 3\nlast words")


def test_an_abort_says_why_on_stderr(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / LOG_FILE).write_text("malloc(): invalid size\n")
    assert root_cause(tmp_path, exit_line(1, -6)).message == "rank 1 was killed by SIGABRT\nmalloc(): invalid size"


def test_what_a_rank_raised_is_the_cause_even_if_it_was_killed_afterwards(tmp_path: Path) -> None:
    _error(tmp_path, 1, "ValueError: bad", 10)
    assert root_cause(tmp_path, exit_line(1, -6)).message == "rank 1 failed: ValueError: bad"


def test_a_launch_that_never_reached_a_rank(tmp_path: Path) -> None:
    cause = root_cause(tmp_path, "address already in use")
    assert cause.rank is None
    assert "address already in use" in cause.message


def test_a_full_disk_is_told_by_an_exit_code(tmp_path: Path) -> None:
    """Nothing else could be written: the error files are cut short."""
    _error(tmp_path, 0, "RuntimeError: Connection closed by peer", 10)
    cut_short = tmp_path / "1"
    cut_short.mkdir()
    (cut_short / ERROR_FILE).write_text('{"message": {"mess')
    cause = root_cause(tmp_path, f"{exit_line(0, 1)}\n{exit_line(1, DISK_FULL)}")
    assert cause.rank == 1
    assert "no space left" in cause.message
