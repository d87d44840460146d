"""Ranks that are killed by what they wrote down about themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from emplace.runtime.files import write_whole
from emplace.runtime.rank_process import RankProcess, kill_ranks, process_path

pytestmark = pytest.mark.torch

PARENT_THAT_WAITS_FOR_NONE = """
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
print(*(child.pid for child in children), flush=True)
time.sleep(60)
"""


def test_a_rank_that_does_not_go_keeps_no_other_one_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that hangs in a driver: here, what is left of each is never fetched by its parent."""
    monkeypatch.setattr("emplace.runtime.rank_process._KILL_S", 0.2)
    with subprocess.Popen([sys.executable, "-c", PARENT_THAT_WAITS_FOR_NONE], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            ranks = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
            for number, rank in enumerate(ranks):
                said = RankProcess(rank=number, pid=rank.pid, started_at=rank.create_time(), phase="training")
                write_whole(process_path(tmp_path, number), said.canonical_json())
            kill_ranks(tmp_path, 2)
            assert [rank.status() for rank in ranks] == [psutil.STATUS_ZOMBIE] * 2
        finally:
            parent.kill()
