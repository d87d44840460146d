"""Text in columns and paragraphs, no line longer than the terminal is wide."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

_GAP = "  "
_LEAST = 12
"""No column is folded narrower."""
WITHOUT_TERMINAL = 120
_NARROWEST = 60


def width() -> int:
    """How many columns the terminal has; for a log, what `COLUMNS` says."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    columns = shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns if on_terminal or "COLUMNS" in os.environ else WITHOUT_TERMINAL
    return max(_NARROWEST, columns)


def in_columns(rows: Sequence[Sequence[str]], width: int, *, right: Sequence[int] = ()) -> list[str]:
    """The rows as lines, of which the first is the heading. Columns without anything are left out; the widest are folded until all fit."""
    kept = [index for index in range(len(rows[0])) if any(row[index] for row in rows[1:])]
    widths = {index: max(len(row[index]) for row in rows) for index in kept}
    while sum(widths.values()) + len(_GAP) * (len(kept) - 1) > width:
        widest = max(widths, key=lambda index: widths[index])
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    lines = []
    for row in rows:
        cells = [_folded(row[index], widths[index]) for index in kept]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (
                part.rjust(widths[index]) if index in right else part.ljust(widths[index]) for index, part in zip(kept, parts, strict=True)
            )
            lines.append(_GAP.join(padded).rstrip())
    return lines


def paragraph(text: str, width: int, *, first: str = "", later: str | None = None) -> list[str]:
    """Wrapped, with what stands before the first line and before the later ones."""
    later = " " * len(first) if later is None else later
    wrapped = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return wrapped or [first.rstrip()]


def _folded(cell: str, width: int) -> list[str]:
    """A path is broken after a slash where that will do."""
    lines, line = [], ""
    for piece in cell.replace("/", "/\0").replace(" ", " \0").split("\0"):
        if line and len((line + piece).rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece
        while len(line.rstrip()) > width:
            lines.append(line[:width])
            line = line[width:]
    return [*lines, line.rstrip()]
