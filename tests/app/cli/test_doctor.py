"""`emplace doctor`: what is there, what is absent, what is broken."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.app.cli.command import Emplace


def findings(emplace: Emplace) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and (health, detail) of each part."""
    ended = emplace("doctor", "--format", "json")
    return ended.returncode, {each["what"]: (each["health"], each["detail"]) for each in json.loads(ended.stdout)}


def test_it_says_what_is_there_and_what_is_broken(emplace_here: Emplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "home" / "emplace.db"
    code, found = findings(emplace_here)
    assert code == 0
    assert {"python", "compiled functions", "solver", "exact solver", "cores", "memory", "service"} <= {
        what for what in found if found[what][0] == "ok"
    }
    assert "is not there yet" in found["database"][1]
    assert not kept.exists()
    assert emplace_here("keys", "list").returncode == 0
    with sqlite3.connect(kept) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    code, found = findings(emplace_here)
    assert (code, found["database"][0], "belongs to a newer Emplace" in found["database"][1]) == (2, "broken", True)
    monkeypatch.setenv("EMPLACE_DATABASE_URL", f"postgresql://nobody@/nothing?host={tmp_path}")
    told = emplace_here("doctor")
    table = " ".join(told.stdout.split())
    assert (told.returncode, "compiled functions ok" in table, "can't be used" in table) == (2, True, True)


def test_an_installation_without_the_exact_solver_is_whole(emplace_here: Emplace, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("ortools.sat.python.cp_model", "ortools", "scipy"):
        monkeypatch.setitem(sys.modules, package, None)
    code, found = findings(emplace_here)
    assert (code, found["solver"][0], found["exact solver"][0]) == (0, "ok", "absent")
    assert "pip install '.[solve]'" in found["exact solver"][1]
    monkeypatch.setitem(sys.modules, "highspy", None)
    code, found = findings(emplace_here)
    assert (code, found["solver"]) == (2, ("broken", "highspy is not installed; pip install . in a checkout of Emplace"))


@pytest.mark.parametrize("below", ["", "kept/here"])
def test_a_file_is_no_home(emplace_here: Emplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("EMPLACE_HOME", str(file / below))
    code, found = findings(emplace_here)
    assert (code, found["EMPLACE_HOME"]) == (
        2,
        ("broken", f"{file} is no folder: set EMPLACE_HOME to one, or to where one can be made"),
    )


@pytest.mark.parametrize("url", ["postgresql://me:{}@127.0.0.1:1/nothing?sslpassword={}", "postgresql://me:x@{}@127.0.0.1:1/nothing"])
def test_a_password_is_never_shown(emplace_here: Emplace, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("EMPLACE_DATABASE_URL", url.replace("{}", "a-word-of-mine"))
    code, found = findings(emplace_here)
    assert (code, found["database"][0]) == (2, "broken")
    assert "a-word-of-mine" not in found["database"][1]
