"""Work in processes: its order, and what becomes of failures."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from emplace.placement.errors import InvalidDocument, ToolError
from emplace.runtime.side_by_side import in_processes
from tests.runtime.work import doubled, ended, refused, slow_first


def test_answers_are_in_the_order_of_the_tasks_and_of_other_processes() -> None:
    found = list(in_processes([0, 1, 2, 3, 4], slow_first, 2))
    assert [number for number, _ in found] == [0, 1, 2, 3, 4]
    assert os.getpid() not in {process for _, process in found}
    assert {process for _, process in in_processes([5], slow_first, 2)} == {os.getpid()}


def test_what_fails_there_is_said_here() -> None:
    with pytest.raises(ToolError, match="no such thing"):
        list(in_processes([1, 2], refused, 2))
    with pytest.raises(InvalidDocument):
        list(in_processes([1], refused, 2))
    with pytest.raises(ToolError, match="ended from outside"):
        list(in_processes([1, 2], ended, 2))


def test_a_script_that_would_start_itself_over_and_over_is_told_so(tmp_path: Path) -> None:
    work = "print(list(in_processes([b'a', b'b'], doubled, 2)))"
    imports = "from emplace.runtime.side_by_side import in_processes\nfrom tests.runtime.work import doubled\n"
    guarded = run_script(tmp_path, f"{imports}if __name__ == '__main__':\n    {work}\n")
    assert (guarded.returncode, guarded.stdout.strip()) == (0, "[2, 2]")
    bare = run_script(tmp_path, imports + work)
    assert bare.returncode == 1
    assert "put what the script does below that line" in bare.stderr.splitlines()[-1]


def run_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(text)
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": root}
    return subprocess.run([sys.executable, folder / "script.py"], env=environment, cwd=root, capture_output=True, text=True, timeout=60)


def test_processes_end_with_who_asked_also_where_tasks_are_large() -> None:
    """More than a pipe holds, so that a process which never reads would be waited for."""
    answers = in_processes([b"x" * 2**22] * 6, doubled, 2)
    next(answers)
    started = time.monotonic()
    answers.close()  # type: ignore[attr-defined]
    assert time.monotonic() - started < 10
    assert not active_children()
