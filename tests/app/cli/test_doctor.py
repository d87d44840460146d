"""`emplace doctor`: what is there, what is absent, what is broken."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.app.cli.command import Emplace


def test_it_says_what_is_there_and_what_is_broken(emplace_here: Emplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings() -> tuple[int, dict[str, tuple[str, str]]]:
        ended = emplace_here("doctor", "--format", "json")
        return ended.returncode, {each["what"]: (each["health"], each["detail"]) for each in json.loads(ended.stdout)}

    kept = tmp_path / "home" / "emplace.db"
    code, found = findings()
    assert code == 0
    assert {"python", "compiled functions", "solver", "cores", "memory", "service"} <= {what for what in found if found[what][0] == "ok"}
    assert "is not there yet" in found["database"][1]
    assert not kept.exists()
    assert emplace_here("keys", "list").returncode == 0
    with sqlite3.connect(kept) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    code, found = findings()
    assert (code, found["database"][0], "belongs to a newer Emplace" in found["database"][1]) == (2, "broken", True)
    monkeypatch.setenv("EMPLACE_DATABASE_URL", f"postgresql://nobody@/nothing?host={tmp_path}")
    told = emplace_here("doctor")
    table = " ".join(told.stdout.split())
    assert (told.returncode, "compiled functions ok" in table, "can't be used" in table) == (2, True, True)
