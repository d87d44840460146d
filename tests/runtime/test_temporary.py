"""Temporary folders outlive a killed process only until the next one looks, and never lose one that is in use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from emplace.placement.host import HostSpec
from emplace.placement.reading import read_file
from emplace.runtime.rank_process import RankProcess
from emplace.runtime.temporary import in_use, remove_leftovers, temporary_folder
from tests.executor.plans import build_plan, make_model, mixed_layouts

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]


def test_the_next_run_removes_what_a_killed_one_left(here: HostSpec, tmp_path: Path) -> None:
    model, plan, folders = make_model(), tmp_path / "plan.json", tmp_path / "temporary"
    plan.write_text(build_plan(model, here, mixed_layouts(model), ranks=2).canonical_json())
    folders.mkdir()
    command = [sys.executable, "-m", "emplace.app.cli", "run", str(plan)]
    environment = os.environ | {"TMPDIR": str(folders)}
    killed = subprocess.Popen([*command, "--steps", "100000"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        ranks = _ranks(folders)
        agent = ranks[0].parent()
        assert agent is not None
        with temporary_folder("other", folders) as other:
            assert len(list(folders.iterdir())) == 2  # the run goes on, so its folder stays
            killed.kill()
            _, alive = psutil.wait_procs([agent, *ranks], timeout=30)
            assert alive == []
            [left] = folders.glob("emplace-run-*")
            subprocess.run([*command, "--timeout", "1"], cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False)
            assert not left.exists()
            assert list(folders.iterdir()) == [other]
    finally:
        killed.kill()
        killed.wait()


def _ranks(folders: Path) -> list[psutil.Process]:
    """The processes of both ranks, once they have said who they are."""
    deadline = time.monotonic() + 60
    while len(said := list(folders.glob("*/process-rank*.json"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [psutil.Process(read_file(path, RankProcess).pid) for path in said]


def test_a_folder_that_another_process_still_uses_stays(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from emplace.runtime.temporary import temporary_folder\n"
        "with temporary_folder('owned', pathlib.Path(sys.argv[1])) as folder: print(folder, flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner.stdout as printed:
        folder = Path(printed.readline().strip())
        with in_use(folder):
            owner.kill()
            owner.wait()
            remove_leftovers(tmp_path)
            assert folder.is_dir()
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []
