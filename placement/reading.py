"""From untrusted text to a document, or to an error that names source, field, value and rule."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from emplace.placement.access import ACCESS_SPELLINGS
from emplace.placement.document import BROKEN_RULE, Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.lengths import LENGTH_SPELLINGS
from emplace.placement.messages import rule_of, spelled
from emplace.placement.pointer import pointer_to
from emplace.placement.yaml_text import MAX_DIGITS, parse_float, parse_yaml

__all__ = ["MAX_DOCUMENT_BYTES", "broken_rules_of", "from_data", "parse_json", "parse_yaml", "read_file", "read_text"]

MAX_DOCUMENT_BYTES = 32 * 2**20
_MAX_SHOWN = 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = "holds half of a surrogate pair, which is no character"

D = TypeVar("D", bound=Document)


def read_file(path: Path, kind: type[D]) -> D:
    """The document in a YAML or JSON file. Raises InvalidDocument."""
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise InvalidDocument(str(path), [_too_large(path.stat().st_size)])
        with path.open("rb") as file:
            text = file.read(MAX_DOCUMENT_BYTES + 1).decode()  # a device has no size and perhaps no end
    except OSError as error:
        raise InvalidDocument(str(path), [BrokenRule("", "", f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidDocument(str(path), [BrokenRule("", "", "must be UTF-8 text")]) from None
    return read_text(text, kind, source=str(path), as_json=path.suffix == ".json")


def read_text(text: str, kind: type[D], *, source: str, as_json: bool) -> D:
    """The document that `text` spells. Raises InvalidDocument."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(source, [_too_large(len(text))])
    return from_data(parse_json(text, source) if as_json else parse_yaml(text, source), kind, source=source)


def from_data(data: Any, kind: type[D], *, source: str, pointer: str = "") -> D:
    """The document that plain data spells; `pointer` is where the data sits in what a person sent. Raises InvalidDocument."""
    if data is None:
        raise InvalidDocument(source, [BrokenRule(pointer, "", "is empty, must be a mapping")])
    if not isinstance(data, dict):
        raise InvalidDocument(source, [BrokenRule(pointer, spelled(data), "must be a mapping")])
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidDocument(source, broken_rules_of(error, pointer)) from None


def broken_rules_of(error: ValidationError, pointer: str = "") -> list[BrokenRule]:
    """Every broken rule, in document order; after the first twenty only how many more there are."""
    details = [detail for detail in error.errors(include_url=False) if not _follows_from_others(detail)]
    broken = [_broken_rule(detail, pointer) for detail in details[:_MAX_SHOWN]]
    if len(details) > _MAX_SHOWN:
        broken.append(BrokenRule(pointer, "", f"and {len(details) - _MAX_SHOWN} more problems"))
    return broken


def _follows_from_others(detail: ErrorDetails) -> bool:
    """Whether an error says nothing new: where a list is too short only because its items break rules, pydantic reports both."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _broken_rule(detail: ErrorDetails, pointer: str) -> BrokenRule:
    pointer += _pointer(detail["loc"])
    if detail["type"] == BROKEN_RULE:
        return BrokenRule(pointer + detail["ctx"]["pointer"], spelled(detail["ctx"]["value"]), detail["ctx"]["rule"])
    shown = "" if detail["type"] == "missing" else spelled(detail["input"])
    return BrokenRule(pointer, shown, rule_of(detail))


def parse_json(text: str, source: str) -> Any:
    """JSON without NaN, infinity, repeated keys or half characters, in time linear in its length. Raises InvalidDocument.

    JSON has one kind of number: 4289.0 is the whole number 4289 (JSON Schema's `integer`), whoever writes it.
    """
    try:
        data = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_parse_int,
            parse_float=parse_float,
            object_pairs_hook=_mapping_without_repeats,
        )
    except RecursionError:
        raise InvalidDocument(source, [BrokenRule("", "", "is nested too deep")]) from None
    except ValueError as error:
        raise InvalidDocument(source, [BrokenRule("", "", f"is not valid JSON: {error}")]) from None
    if _SURROGATE.search(text):  # rare, and only then worth looking at every value
        halves = [BrokenRule(pointer, "", _HALF) for pointer in islice(_half_characters(data), _MAX_SHOWN)]
        if halves:
            raise InvalidDocument(source, halves)
    return data


def _half_characters(data: Any) -> Iterator[str]:
    """The pointers of texts, and of mappings with keys, that hold a surrogate without its other half: UTF-8 has no spelling for it."""
    waiting: list[tuple[_Path, Any]] = [(None, data)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str) and not _is_text(value):
            yield _pointer_of(path)
        elif isinstance(value, list):
            waiting += [((path, index), item) for index, item in enumerate(value)]
        elif isinstance(value, dict):
            if not all(map(_is_text, value)):
                yield _pointer_of(path)
            waiting += [((path, key), item) for key, item in value.items() if _is_text(key)]


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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON allows")


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _mapping_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {spelled(repeated)} is repeated")
    return mapping


def _too_large(size: int) -> BrokenRule:
    return BrokenRule("", f"{size} bytes", f"must be at most {MAX_DOCUMENT_BYTES} bytes")


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON pointer, without the tags that pydantic adds for the members of a union."""
    return pointer_to(*(part for index, part in enumerate(location) if not _is_union_tag(location, index)))


_UNION_TAGS = {"length": set(LENGTH_SPELLINGS), "access": set(ACCESS_SPELLINGS)}


def _is_union_tag(location: tuple[int | str, ...], index: int) -> bool:
    return index > 0 and location[index] in _UNION_TAGS.get(str(location[index - 1]), ())
