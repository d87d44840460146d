"""`make demo`, up to where it starts to measure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_says_where_it_works_and_what_it_leaves_aside(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("EMPLACE_")}
    environment = inherited | {"EMPLACE_HOME": str(tmp_path / "mine"), "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-m", "emplace.app.demo"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        said = ""
        for line in demo.stdout:
            said += line
            if line.startswith("[1/3]"):
                demo.terminate()
    assert demo.returncode == 130
    assert f"its database in {tmp_path / 'build' / 'demo'}\n" in said
    assert "  EMPLACE_HOME: set, but not used by the demo" in said
    assert not (tmp_path / "mine").exists()
