"""The lines on which the keys of a TOML file stand, which its reader does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterable

from emplace.placement.pointer import parts_of

_PART = r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'"""
_NAME = rf"(?:{_PART})(?:\s*\.\s*(?:{_PART}))*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_NAME})\s*\]")
_KEY = re.compile(rf"\s*({_NAME})\s*=")


def toml_lines(text: str, pointers: Iterable[str]) -> dict[str, int]:
    """The line of each pointer's key; of what should hold it, where it is not there; the first, where nothing is."""
    known = dict(_keys(text))
    lines = {}
    for pointer in pointers:
        path = tuple(parts_of(pointer))
        lines[pointer] = next((known[path[:end]] for end in range(len(path), 0, -1) if path[:end] in known), 1)
    return lines


def _keys(text: str) -> Iterable[tuple[tuple[str, ...], int]]:
    inside: tuple[str, ...] = ()
    counts: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            inside = _within(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[inside] = counts.get(inside, -1) + 1
                inside = (*inside, str(counts[inside]))
            yield inside, number
        elif key := _KEY.match(line):
            yield (*inside, *_parts(key[1])), number


def _within(parts: tuple[str, ...], counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """The path of a header: of a list of tables, which stands before its end, the last is meant."""
    path: tuple[str, ...] = ()
    for number, part in enumerate(parts):
        path = (*path, part)
        if path in counts and number < len(parts) - 1:
            path = (*path, str(counts[path]))
    return path


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, name))
