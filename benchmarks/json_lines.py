"""The results of a benchmark as JSON lines, printed as they come and kept in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def emit(line: Mapping[str, Any], out: Path | None = None) -> None:
    """Print one line, and append it to `out` too: what was found is not lost when the benchmark is interrupted."""
    text = json.dumps(line)
    print(text, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines that a benchmark wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
