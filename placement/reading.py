"""From untrusted text to a document, or to an error that names source, field, value and rule."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from emplace.placement.access import ACCESS_SPELLINGS
from emplace.placement.document import BROKEN_RULE, Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.id_order import ID_ORDERS
from emplace.placement.json_text import parse_json
from emplace.placement.lengths import LENGTH_SPELLINGS
from emplace.placement.lines import lines_of
from emplace.placement.messages import rule_of, spelled
from emplace.placement.model import NAME_PATTERN
from emplace.placement.pointer import parts_of, pointer_to
from emplace.placement.yaml_text import parse_yaml

__all__ = ["MAX_DOCUMENT_BYTES", "from_data", "in_file", "lines_in", "parse_json", "parse_yaml", "read_file", "read_text", "text_of"]

MAX_DOCUMENT_BYTES = 32 * 2**20
_MAX_SHOWN = 20
_MAX_COUNTED = _MAX_ITEMS = 10_000

D = TypeVar("D", bound=Document)


def read_file(path: Path, kind: type[D]) -> D:
    """The document in a YAML or JSON file. Raises InvalidDocument."""
    return read_text(text_of(path), kind, source=str(path), as_json=_is_json(path))


def read_text(text: str, kind: type[D], *, source: str, as_json: bool) -> D:
    """The document that `text` spells. Raises InvalidDocument."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(source, [_too_large(len(text))])
    data = parse_json(text, source) if as_json else parse_yaml(text, source)
    try:
        return from_data(data, kind, source=source)
    except InvalidDocument as error:
        raise _with_lines(error, text, as_json=as_json) from None


def in_file(error: InvalidDocument, path: Path) -> InvalidDocument:
    """The same about the file that a document was read from: what a document breaks may show only in the question it is part of."""
    named = InvalidDocument(str(path), error.broken_rules)
    return _with_lines(named, text_of(path), as_json=_is_json(path))


def lines_in(path: Path, pointers: Sequence[str]) -> dict[str, int]:
    """The line of each pointer's value in a file that holds a document. Raises InvalidDocument for one that can't be read any more."""
    return lines_of(text_of(path), pointers, as_json=_is_json(path))


def text_of(path: Path) -> str:
    """What a file of at most 32 MiB holds. Raises InvalidDocument."""
    data = b""
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise InvalidDocument(str(path), [_too_large(path.stat().st_size)])
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)  # a device has no size and perhaps no end
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidDocument(str(path), [BrokenRule("", "", f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        hint = "; this looks like UTF-16, save it as UTF-8" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else ""
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidDocument(str(path), [BrokenRule("", "", f"must be UTF-8 text{hint}", line)]) from None


def _is_json(path: Path) -> bool:
    return path.suffix == ".json"


def _with_lines(error: InvalidDocument, text: str, *, as_json: bool) -> InvalidDocument:
    lines = lines_of(text, [broken.pointer for broken in error.broken_rules], as_json=as_json)
    return InvalidDocument(error.source, [replace(broken, line=lines[broken.pointer]) for broken in error.broken_rules])


def from_data(data: Any, kind: type[D], *, source: str, pointer: str = "") -> D:
    """The document that plain data spells; `pointer` is where the data sits in what a person sent. Raises InvalidDocument."""
    if data is None:
        raise InvalidDocument(source, [BrokenRule(pointer, "", "is empty, must be a mapping")])
    if not isinstance(data, dict):
        raise InvalidDocument(source, [BrokenRule(pointer, spelled(data), "must be a mapping")])
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidDocument(source, _broken_rules(kind, data, error, pointer)) from None


def _broken_rules(kind: type[Document], data: dict[str, Any], error: ValidationError, pointer: str) -> list[BrokenRule]:
    """Every broken rule, in document order; after the first twenty only how many more there are."""
    details = (detail for detail in _details(kind, data, error) if not _follows_from_others(detail))
    broken = [_broken_rule(detail, data, pointer) for detail in islice(details, _MAX_SHOWN)]
    if more := sum(1 for _ in islice(details, _MAX_COUNTED)):
        broken.append(BrokenRule(pointer, "", f"and {'at least ' if more == _MAX_COUNTED else ''}{more} more problems"))
    return broken


def _details(kind: type[Document], data: dict[str, Any], error: ValidationError) -> Iterator[ErrorDetails]:
    """What is wrong, in document order. Validation leaves a list at its first broken item (`Document`), so that of a list of documents
    each item is asked."""
    asked = set()
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0]) if len(detail["loc"]) > 1 else ""
        item, given = _item_kind(kind, name), data.get(name)
        if item is None or not isinstance(given, list):
            yield detail
            continue
        for index, part in enumerate(given[:_MAX_ITEMS] if name not in asked else ()):
            for of_item in _details_of_item(item, part, (name, index)):
                asked.add(name)
                yield of_item
        if name not in asked:  # of an earlier version, whose items are what the document made of them
            yield detail


def _item_kind(kind: type[Document], name: str) -> type[Document] | None:
    """The kind of documents that a field is a list of; None where it is none."""
    annotation = kind.model_fields[name].annotation if name in kind.model_fields else None
    item = get_args(annotation)[0] if get_origin(annotation) is tuple else None
    return item if isinstance(item, type) and issubclass(item, Document) else None


def _details_of_item(kind: type[Document], data: Any, location: tuple[int | str, ...]) -> list[ErrorDetails]:
    try:
        kind.model_validate(data)
    except ValidationError as error:
        return [{**detail, "loc": (*location, *detail["loc"])} for detail in error.errors(include_url=False)]
    return []


def _follows_from_others(detail: ErrorDetails) -> bool:
    """Whether an error says nothing new: where a list is too short only because its items break rules, pydantic reports both."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _broken_rule(detail: ErrorDetails, data: dict[str, Any], pointer: str) -> BrokenRule:
    within = _pointer(detail["loc"])
    if detail["type"] == BROKEN_RULE:
        within += detail["ctx"]["pointer"]
        value, rule = spelled(detail["ctx"]["value"]), detail["ctx"]["rule"]
    else:
        value, rule = "" if detail["type"] == "missing" else spelled(detail["input"]), rule_of(detail)
    return BrokenRule(pointer + within, value, rule, named=_named(data, within))


def _named(data: Any, pointer: str) -> str:
    """The way to a value with names in place of numbers: tables[user_id].features[user]; up to the last that has a name."""
    way = named = ""
    for part in parts_of(pointer):
        if isinstance(data, dict) and part in data:
            data, way = data[part], f"{way}.{part}" if way else part
        elif isinstance(data, list) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
            name = data.get("name") if isinstance(data, dict) else None
            if not isinstance(name, str) or not re.match(NAME_PATTERN, name):
                break
            named = way = f"{way}[{name}]"
        else:
            break
    return named


def _too_large(size: int) -> BrokenRule:
    return BrokenRule("", f"{size} bytes", f"must be at most {MAX_DOCUMENT_BYTES} bytes")


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON pointer, without the tags that pydantic adds for the members of a union."""
    return pointer_to(*(part for index, part in enumerate(location) if not _is_union_tag(location, index)))


_UNION_TAGS = {"length": set(LENGTH_SPELLINGS), "access": set(ACCESS_SPELLINGS), "ids": set(ID_ORDERS)}


def _is_union_tag(location: tuple[int | str, ...], index: int) -> bool:
    return index > 0 and location[index] in _UNION_TAGS.get(str(location[index - 1]), ())
