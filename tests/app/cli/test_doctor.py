"""`emplace doctor`: what is there, what is absent, what is broken."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from tests.app.cli.command import run_emplace


def test_it_says_what_is_there_and_what_is_broken(tmp_path: Path) -> None:
    home = tmp_path / "home"

    def findings(**environment: str) -> tuple[int, dict[str, tuple[str, str]]]:
        ended = run_emplace("doctor", "--format", "json", cwd=tmp_path, home=home, **environment)
        return ended.returncode, {each["what"]: (each["health"], each["detail"]) for each in json.loads(ended.stdout)}

    code, found = findings()
    assert code == 0
    assert {"python", "compiled functions", "solver", "cores", "memory", "service"} <= {what for what in found if found[what][0] == "ok"}
    assert "is not there yet" in found["database"][1]
    assert not (home / "emplace.db").exists()
    assert run_emplace("keys", "list", cwd=tmp_path, home=home).returncode == 0
    with sqlite3.connect(home / "emplace.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    code, found = findings()
    assert (code, found["database"][0], "belongs to a newer Emplace" in found["database"][1]) == (2, "broken", True)
    told = run_emplace("doctor", cwd=tmp_path, home=home, EMPLACE_DATABASE_URL=f"postgresql://nobody@/nothing?host={tmp_path}")
    table = " ".join(told.stdout.split())
    assert (told.returncode, "compiled functions ok" in table, "can't be used" in table) == (2, True, True)
