"""What the gate needs to start: no torch, no web framework, no database."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import write_model

HEAVY = ("torch", "torchrec", "fbgemm_gpu", "fastapi", "sqlalchemy", "dbos", "alembic")

WATCHED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy}:
            raise ImportError(f"{{name}} must not be imported here")
sys.meta_path.insert(0, Refuse())
from app.cli.main import exit_code
code = exit_code(sys.argv[1:])
assert not set(sys.modules) & set({heavy}), sorted(set(sys.modules) & set({heavy}))
sys.exit(code)
"""


@pytest.mark.parametrize("command", [["plan"], ["check", "--format", "json"]])
def test_planning_and_checking_import_nothing_heavy(tmp_path: Path, command: list[str]) -> None:
    model = write_model(tmp_path / "small.json")
    arguments = [command[0], str(model), "--host", "dgx-h100", "--ranks", "2", *command[1:]]
    done = subprocess.run([sys.executable, "-c", WATCHED.format(heavy=HEAVY), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "small" in done.stdout
