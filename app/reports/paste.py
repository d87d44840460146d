"""A fix as it can be pasted: a flag of the command, a patch of the file, and how long the step is with it."""

from __future__ import annotations

import difflib
from itertools import chain

from emplace.placement.document import Document


class Replacement(Document):
    """Text in place of that from one place to another; lines and columns count from 1, the end stands behind."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Paste(Document):
    """How to make one change."""

    change: str
    flag: str | None = None
    """Options of the command that make it."""
    file: str | None = None
    """The file that is to change, from here."""
    patch: str | None = None
    """A unified diff, from the root of the repository: what `git apply` takes."""
    replacements: tuple[Replacement, ...] = ()
    step_time_us: float | None = None
    """The step of the best plan that was found with it in a second of work, where that was asked for."""


def unified_diff(path: str, before: str, after: str) -> str:
    """As git spells it; both texts are lines that end in a line feed."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{path}", f"b/{path}")
    ended = chain.from_iterable((line,) if line.endswith("\n") else (line, "\n\\ No newline at end of file\n") for line in lines)
    return f"diff --git a/{path} b/{path}\n{''.join(ended)}"


def _lines(text: str) -> list[str]:
    """Ended by a line feed, and by nothing else that Python takes for an end."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])
