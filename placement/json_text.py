"""JSON to plain data, without what JSON has no word for, and the lines on which its values begin."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.lines import json_lines, line_at
from emplace.placement.messages import spelled
from emplace.placement.plain_data import MAX_DIGITS, MAX_KEYS, MAX_VALUES, parse_float
from emplace.placement.pointer import pointer_to

_MAX_SHOWN = 20
_MAX_TOKENS = 2_000_000
"""Among so many the line of a repeated key is looked for."""
_DEEP = 500
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = "holds half of a surrogate pair, which is no character"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_NO_JSON_NUMBER = re.compile(rf"{_STRING}|(NaN|-?Infinity|-?[0-9]{{{MAX_DIGITS + 1},}})")
_KEY_OR_BRACE = re.compile(rf"({_STRING})(\s*:)?|([{{}}])")


def parse_json(text: str, source: str) -> Any:
    """JSON without NaN, infinity, repeated keys or half characters, in time linear in its length. Raises InvalidDocument.

    JSON has one kind of number: 4289.0 is the whole number 4289 (JSON Schema's `integer`), whoever writes it.
    """
    if text.count(",") + text.count("[") + text.count("{") > MAX_VALUES:  # no fewer than there are
        raise InvalidDocument(source, [BrokenRule("", "", f"has more than {MAX_VALUES} values")])
    try:
        data = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_parse_int,
            parse_float=parse_float,
            object_pairs_hook=_mapping_without_repeats,
        )
    except RecursionError:
        raise InvalidDocument(source, [BrokenRule("", "", "is nested too deep", _line_of_depth(text))]) from None
    except json.JSONDecodeError as error:
        raise InvalidDocument(source, [BrokenRule("", "", f"is not valid JSON: {error}", error.lineno)]) from None
    except _Refused as error:
        raise InvalidDocument(source, [BrokenRule("", "", f"is not valid JSON: {error}", error.line_in(text))]) from None
    if _SURROGATE.search(text):  # rare, and only then worth looking at every value
        halves = list(islice(_half_characters(data), _MAX_SHOWN))
        if halves:
            lines = json_lines(text, halves)
            raise InvalidDocument(source, [BrokenRule(pointer, "", _HALF, lines[pointer]) for pointer in halves])
    return data


class _Refused(ValueError):
    """What Python takes for JSON, or does not mind, and no document has."""

    def line_in(self, text: str) -> int | None:
        del text
        return None


class _NoNumber(_Refused):
    def line_in(self, text: str) -> int | None:
        found = next((match for match in _NO_JSON_NUMBER.finditer(text) if match[1]), None)
        return None if found is None else line_at(text, found.start())


class _Repeated(_Refused):
    def line_in(self, text: str) -> int | None:
        open_mappings: list[set[str]] = []
        for token in islice(_KEY_OR_BRACE.finditer(text), _MAX_TOKENS):
            if token[3] == "{":
                open_mappings.append(set())
            elif token[3]:
                open_mappings.pop()
            elif token[2]:
                key = json.loads(token[1])
                if key in open_mappings[-1]:
                    return line_at(text, token.start())
                open_mappings[-1].add(key)
        return None


def _line_of_depth(text: str) -> int:
    """Where the text is too deep, or almost: how deep is too deep depends on what Python does besides."""
    depth = 0
    for bracket in re.finditer(rf"{_STRING}|([\[{{])|[\]}}]", text):
        depth += 1 if bracket[1] else -1 if bracket[0] in "]}" else 0
        if depth == _DEEP:
            return line_at(text, bracket.start())
    return 1


def _refuse_constant(name: str) -> None:
    raise _NoNumber(f"{name} is not a number that JSON allows")


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _NoNumber(f"a number has {len(digits)} digits")
    return int(digits)


def _mapping_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise _Refused(f"a mapping has {len(pairs)} keys, more than {MAX_KEYS}")
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise _Repeated(f"the key {spelled(repeated)} is repeated")
    return mapping


def _half_characters(data: Any) -> Iterator[str]:
    """The pointers of texts, and of mappings with keys, that hold a surrogate without its other half: UTF-8 has no spelling for it."""
    waiting: list[Iterator[tuple[_Path, Any]]] = [iter([(None, data)])]
    while waiting:
        path, value = next(waiting[-1], (None, _END))
        if value is _END:
            waiting.pop()
        elif isinstance(value, str) and not _is_text(value):
            yield _pointer_of(path)
        elif isinstance(value, list):
            waiting.append(_below(path, enumerate(value)))
        elif isinstance(value, dict):
            if not all(map(_is_text, value)):
                yield _pointer_of(path)
            waiting.append(_below(path, ((key, item) for key, item in value.items() if _is_text(key))))


_END = object()


def _below(path: _Path, parts: Iterable[tuple[str | int, Any]]) -> Iterator[tuple[_Path, Any]]:
    for part, value in parts:
        yield (path, part), value


_Path = tuple["_Path", str | int] | None
"""The way from the document to a value, from its end: a value has one step more than what it is in, however deep that is."""


def _pointer_of(path: _Path) -> str:
    parts: list[str | int] = []
    while path is not None:
        path, part = path
        parts.append(part)
    return pointer_to(*reversed(parts))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
