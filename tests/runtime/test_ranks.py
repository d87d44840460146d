"""Ranks are forks of a process that has imported their program, and nothing of them stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from emplace.runtime.ranks import RanksFailed, run_ranks, threads_per_rank

pytestmark = pytest.mark.torch

PROGRAM = "tests.runtime.programs.telling_rank"


REAL_PROGRAMS = ("emplace.executor.rank", "emplace.profiler.measure.rank")
THREADS_AFTER_A_FORK = """
import os, sys
from importlib import import_module
for program in sys.argv[1:]:
    import_module(program)
if os.fork() == 0:
    os._exit(0)
print(len(os.listdir("/proc/self/task")))
"""


def run(folder: Path, how: str) -> None:
    run_ranks([PROGRAM, str(folder), how], 2, folder, 60, lambda: None)


def said(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("said-*.json"))]


def test_ranks_are_forks_of_one_process_that_imports_their_program(tmp_path: Path) -> None:
    run(tmp_path, "end well")
    first, second = said(tmp_path)
    assert first["imported_by"] == second["imported_by"] == first["parent"] == second["parent"] != os.getpid()
    assert len({first["imported_by"], first["pid"], second["pid"]}) == 3
    for rank, one in enumerate((first, second)):
        assert one["session"] == one["pid"]
        here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
        assert one["told"] == here | {"OMP_NUM_THREADS": threads_per_rank(2)}


def test_what_ranks_import_starts_no_threads_that_a_fork_would_miss() -> None:
    """A rank whose OpenMP threads are in its parent waits for them for ever. OpenBLAS ends its own before a fork."""
    command = [sys.executable, "-c", THREADS_AFTER_A_FORK, *REAL_PROGRAMS]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "2"}, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1\n"


def test_with_a_gpu_each_rank_imports_its_program_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA, which FBGEMM's import starts, does not go on in a fork."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559, 700.00, 5, 16'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    run(tmp_path, "end well")
    assert [one["imported_by"] for one in said(tmp_path)] == [one["pid"] for one in said(tmp_path)]


def test_a_rank_that_ends_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(RanksFailed, match=r"^rank 1 ended with exit code 3\nlast words of rank 1$") as failure:
        run(tmp_path, "fail")
    assert failure.value.rank == 1


def test_a_program_that_can_not_be_imported(tmp_path: Path) -> None:
    with pytest.raises(RanksFailed, match=r"(?s)^the ranks could not be started\n.*No module named 'no_such_program'") as failure:
        run_ranks(["no_such_program"], 2, tmp_path, 60, lambda: None)
    assert failure.value.rank is None


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_no_rank_outlives_its_parent_even_if_nobody_knows_of_it(tmp_path: Path, stop: signal.Signals) -> None:
    """These have not written down who they are, as those that have only just been forked."""
    ranks: list[psutil.Process] = []

    def end_the_parent() -> None:
        if not ranks and len(told := said(tmp_path)) == 2:
            ranks.extend(psutil.Process(one["pid"]) for one in told)
            os.kill(told[0]["parent"], stop)

    with pytest.raises(RanksFailed, match=f"^the ranks' parent process was killed by {stop.name}, and all ranks with it$"):
        run_ranks([PROGRAM, str(tmp_path), "sleep"], 2, tmp_path, 60, end_the_parent)
    assert len(ranks) == 2
    _, alive = psutil.wait_procs(ranks, timeout=5)
    assert alive == []
