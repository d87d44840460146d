"""The command, run as a person runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).parent / "emplace"

WIDE = "400"
"""Columns of text, so that no path is folded."""

QUICK = ("--work-limit", "0.1")
"""For `small`, whose best plan is proven just as well in a hundredth of the work that is given to a plan by default."""

Emplace = Callable[..., "subprocess.CompletedProcess[str]"]


def run_emplace(*arguments: str | Path, cwd: Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=_environment(home) | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def start_emplace(*arguments: str, cwd: Path, home: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Goes on by itself; nobody reads what it says."""
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        [COMMAND, *arguments], cwd=cwd, env=_environment(home) | environment, stdin=nowhere, stdout=nowhere, stderr=nowhere
    )


def _environment(home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("EMPLACE_")}
    return inherited | {"EMPLACE_HOME": str(home), "COLUMNS": WIDE}


def small_model(**changes: Any) -> dict[str, Any]:
    """Two tables, planned in a moment."""
    table = {"num_embeddings": 100_000, "embedding_dim": 64}
    return {
        "schema_version": 1,
        "name": "small",
        "local_batch_size": 512,
        "dense_features": 13,
        "bottom_mlp": [64],
        "top_mlp": [64, 1],
        "interaction": "dot",
        "tables": [
            table | {"name": "users", "features": [{"name": "user", "length": {"fixed": 1}}]},
            table | {"name": "pages", "features": [{"name": "page", "length": {"poisson": 20}}]},
        ],
    } | changes


def write_model(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(small_model(**changes)))
    return path
