"""What the tests of the command share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from emplace.app.cli.main import exit_code
from tests.app.cli.command import QUICK, WIDE, Emplace, run_emplace, write_model


@pytest.fixture
def emplace(tmp_path: Path) -> Emplace:
    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_emplace(*arguments, cwd=tmp_path, home=tmp_path / "home", **environment)

    return run


@pytest.fixture
def emplace_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Emplace:
    """The same without a process of its own, for the many command lines that are refused before any work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMPLACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", WIDE)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        given = list(map(str, arguments))
        code = exit_code(given)
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(given, code, out, err)

    return run


@pytest.fixture(scope="session")
def small_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`small` on two devices of dgx-h100, planned by the command."""
    folder = tmp_path_factory.mktemp("small")
    model = write_model(folder / "small.json")
    plan = folder / "plan.json"
    done = run_emplace("plan", model, "--host", "dgx-h100", "--ranks", "2", *QUICK, "--out", plan, cwd=folder, home=folder)
    assert done.returncode == 0, done.stderr
    return plan
