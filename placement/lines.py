"""The lines on which the values of a document begin, looked up in its text when an error is to name them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

import yaml

from emplace.placement.pointer import parts_of

_MAX_PARTS = 200_000
"""Parts of one JSON value among which a line is looked for."""
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(parse_int=len)
"""Only to find where a value ends: a number of many digits need not be made."""
_OPENING: Any = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING: Any = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


def lines_of(text: str, pointers: Iterable[str], *, as_json: bool) -> dict[str, int]:
    """The line of each pointer's value in a valid document. A value that is not there has that of what should hold it, and one that an
    alias or a merge key brings in that of what holds it."""
    return json_lines(text, pointers) if as_json else _yaml_lines(text, pointers)


def json_lines(text: str, pointers: Iterable[str]) -> dict[str, int]:
    """`lines_of` for JSON."""
    parts_at = cache(partial(_parts, text))
    lines = {}
    for pointer in pointers:
        begins = value = _after_space(text, 0)
        for part in parts_of(pointer):
            found = parts_at(value).get(part)
            if found is None:
                break
            begins, value = found
        lines[pointer] = line_at(text, begins)
    return lines


def _parts(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Where each part of the mapping or list at this place begins, and where its value does. The decoder passes values, in C."""
    parts: dict[str, tuple[int, int]] = {}
    opening, at = text[at], _after_space(text, at + 1)
    while opening in "{[" and text[at] not in "}]" and len(parts) < _MAX_PARTS:
        begins, part = at, str(len(parts))
        if opening == "{":
            part, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        parts[part] = begins, at
        at = _after_space(text, _DECODER.raw_decode(text, at)[1])
        at = _after_space(text, at + 1) if text[at] == "," else at
    return parts


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None  # it may be empty
    return match.end()


def line_at(text: str, at: int) -> int:
    """The line of a place in the text."""
    return text.count("\n", 0, at) + 1


_Path = tuple[str, ...]


def _yaml_lines(text: str, pointers: Iterable[str]) -> dict[str, int]:
    wanted = {pointer: tuple(parts_of(pointer)) for pointer in pointers}
    on_the_way = {path[:end] for path in wanted.values() for end in range(len(path) + 1)}
    lines: dict[_Path, int] = {(): 1}
    events: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)
    for event in events:
        if isinstance(event, _OPENING):
            lines[()] = event.start_mark.line + 1
            _note_parts(events, event, (), on_the_way, lines)
    ends = {pointer: next(end for end in range(len(path), -1, -1) if path[:end] in lines) for pointer, path in wanted.items()}
    return {pointer: lines[path[: ends[pointer]]] for pointer, path in wanted.items()}


def _note_parts(events: Iterator[Any], opening: Any, path: _Path, wanted: set[_Path], lines: dict[_Path, int]) -> None:
    """Note the lines of the wanted parts, at any depth, of the mapping or list that has just begun, and pass its end."""
    for index, event in enumerate(events):
        if isinstance(event, _CLOSING):
            return
        value, line, key = event, event.start_mark.line + 1, str(index)
        if isinstance(opening, yaml.MappingStartEvent):
            key, value = event.value, next(events)
        part = (*path, key)
        if part in wanted:
            lines[part] = line
        if isinstance(value, _OPENING):
            _note_parts(events, value, part, wanted, lines)
