"""Tables of the pages in docs/lab, from the JSON lines that a benchmark wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.json_lines import read_lines


def print_table(usage: str | None, table: Callable[[list[dict[str, Any]]], Iterable[str]]) -> None:
    """The main program of a table: prints the table of the file that is its one argument. Without it, exits with `usage`."""
    if len(sys.argv) != 2:
        sys.exit(usage)
    print("\n".join(table(read_lines(Path(sys.argv[1])))))


def head(*columns: str) -> str:
    """The first two lines of a table."""
    return f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
