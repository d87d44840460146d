"""Tables of the pages in docs/lab, from the JSON lines that a benchmark wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
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


def beside_reach(lines: Iterable[Mapping[str, Any]], reach: Mapping[str, str]) -> Iterator[str]:
    """The table of a benchmark whose lines have a `part` and its figures."""
    yield head("part", "figures", "reach")
    for line in lines:
        shown = ", ".join(
            f"{key.replace('_', ' ')} {value if isinstance(value, str) else f'{value:.4g}'}" for key, value in line.items() if key != "part"
        )
        yield f"| {line['part']} | {shown} | {reach[line['part']]} |"
