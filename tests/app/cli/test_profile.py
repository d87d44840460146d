"""`emplace profile` beside another one: measuring itself is tested with the profiler."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from emplace.profiler.alone import alone
from tests.app.cli.command import COMMAND, Emplace, start_emplace

pytestmark = pytest.mark.torch


def test_two_profiles_at_once_do_not_share_a_file(emplace_here: Emplace, tmp_path: Path) -> None:
    """The second is told so, and the first goes on; one that was killed is in nobody's way."""
    kept, same = tmp_path / "home" / "unfinished-profiles", ("profile", "--quick", "--ranks", "1")
    first = start_emplace(*same, "--seconds", "600", cwd=tmp_path, home=tmp_path / "home")
    try:
        _wait_for(kept, "measured-*", first)
        second = emplace_here(*same)
        assert (second.returncode, second.stdout) == (2, "")
        assert "another profile is measuring this machine with 1 rank(s); wait until it has ended" in second.stderr
        assert first.poll() is None
        assert len(list(kept.glob("measured-*"))) == 1
    finally:
        first.kill()
        first.wait()
    [lock] = kept.glob("lock-*")
    with alone(lock, "still locked"):
        pass
    assert not lock.exists()


def test_files_that_can_not_grow_are_named(tmp_path: Path) -> None:
    environment = os.environ | {"EMPLACE_HOME": str(tmp_path / "home")}
    command: list[str | Path] = ["sh", "-c", 'ulimit -f 1; exec "$0" profile --quick --ranks 1', COMMAND]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"emplace: {tmp_path}/home/unfinished-profiles: can't be used for measurements: File too large"


def _wait_for(folder: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not list(folder.glob(pattern)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
