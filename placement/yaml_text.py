"""YAML to plain data: of YAML what JSON knows too, with aliases and merge keys, bounded in size and depth.

A document is built from the parser's events as they come: its depth and length are counted before they are a danger.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import yaml

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.messages import spelled
from emplace.placement.plain_data import MAX_DIGITS, MAX_KEYS, MAX_VALUES, parse_float
from emplace.placement.pointer import pointer_to

MAX_EVENTS = 1_000_000
"""YAML is slow to read: a document of more values is written as JSON."""
MAX_DEPTH = 50
_DIRECTIVE = re.compile("(?:^|[\n\r\x85\u2028\u2029])%TAG")
"""libyaml compares each with all that came before."""
_NUMBER_LIKE = re.compile(r"[-+.]?[0-9][-+.:_0-9a-fA-Fx]*")
_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _STR, _DATE = (_TAG + name for name in ("null", "bool", "int", "float", "str", "timestamp"))
_CONTAINERS = {yaml.MappingStartEvent: _TAG + "map", yaml.SequenceStartEvent: _TAG + "seq"}


def parse_yaml(text: str, source: str) -> Any:
    """The plain data that `text` spells, without repeated keys. Raises InvalidDocument."""
    loader = None
    if directive := _DIRECTIVE.search(text):
        line = text.count("\n", 0, directive.end()) + 1
        raise InvalidDocument(source, [BrokenRule("", "", "must have no %TAG directive, a document needs no tags; leave it out", line)])
    try:
        loader = yaml.CSafeLoader(text)
        return _Document(loader).read()
    except _Refused as refused:
        broken = BrokenRule(pointer_to(*reversed(refused.parts)), refused.value, refused.rule, refused.line)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        broken = BrokenRule("", "", f"is not valid YAML: line {mark.line + 1}, column {mark.column + 1}: {error.problem}", mark.line + 1)
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        broken = BrokenRule("", "", f"is not valid YAML: {error.reason} at character {error.position}", line)
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        broken = BrokenRule("", "", "holds half of a surrogate pair, which is no character", line)
    finally:
        if loader is not None:
            loader.dispose()
    raise InvalidDocument(source, [broken])


class _Refused(Exception):
    """A value that no document has: the rule that it breaks and where; `parts` leads to it, from its end."""

    def __init__(self, rule: str, event: Any, value: str = "") -> None:
        super().__init__(rule)
        self.rule, self.value, self.line = rule, value, event.start_mark.line + 1
        self.parts: list[str | int] = []


class _Document:
    def __init__(self, loader: yaml.CSafeLoader) -> None:
        self._loader: Any = loader
        self._anchors: dict[str, tuple[Any, int]] = {}
        """Each value that has a name, and how many values it holds."""
        self._unfinished: set[str] = set()
        self._written = self._expanded = self._depth = 0

    def read(self) -> Any:
        self._next()  # the stream's start
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        data = self._value(self._next())
        self._next()  # the document's end
        if not isinstance(following := self._next(), yaml.StreamEndEvent):
            _invalid("expected a single document, but found another document", following)
        return data

    def _next(self) -> Any:
        event = self._loader.get_event()
        self._written += 1
        if self._written > MAX_EVENTS:
            raise _Refused(f"has more than {MAX_EVENTS} values, too many for YAML; write it as JSON", event)
        return event

    def _value(self, event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before, anchor = self._expanded, event.anchor
        self._count(1, event)
        if anchor is not None:
            self._unfinished.add(anchor)
        value = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._container(event)
        if anchor is not None:
            self._unfinished.discard(anchor)
            self._anchors[anchor] = value, self._expanded - before
        return value

    def _count(self, values: int, event: Any) -> None:
        self._expanded += values
        if self._expanded > MAX_VALUES:
            raise _Refused(f"has more than {MAX_VALUES} values once its aliases are written out", event)

    def _alias(self, event: Any) -> Any:
        if event.anchor in self._unfinished:
            raise _Refused("contains itself through an alias", event)
        if event.anchor not in self._anchors:
            _invalid(f"found undefined alias {spelled(event.anchor)}", event)
        value, size = self._anchors[event.anchor]
        self._count(size, event)
        return value

    def _container(self, event: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Refused(f"is nested more than {MAX_DEPTH} levels deep", event)
        if event.tag not in (None, "!", _CONTAINERS[type(event)]):
            _refuse_tag(event)
        value = self._mapping() if isinstance(event, yaml.MappingStartEvent) else self._list()
        self._depth -= 1
        return value

    def _list(self) -> list[Any]:
        values: list[Any] = []
        try:
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                values.append(self._value(event))
        except _Refused as refused:
            refused.parts.append(len(values))
            raise
        return values

    def _mapping(self) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            try:
                value = self._value(self._next())
            except _Refused as refused:
                refused.parts.append(key)
                raise
            if key in data:
                _invalid(f"the key {spelled(key)} is repeated", event)
            data[key] = value
            if key == "<<" and event.implicit[0]:
                merged = _merged(value, event)
            if len(data) + len(merged) > MAX_KEYS:
                raise _Refused(f"has more than {MAX_KEYS} keys", event)
        if merged:
            del data["<<"]
        return merged | data if merged else data

    def _key(self, event: Any) -> str:
        """As it is written: what would be a number or a truth elsewhere is text here, as it is in JSON."""
        if not isinstance(event, yaml.ScalarEvent):
            _invalid("a key must be a plain value", event)
        if event.tag not in (None, "!", _STR):
            _refuse_tag(event)
        key: str = event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = key, 1
        return key

    def _scalar(self, event: Any) -> Any:
        text, tag = event.value, event.tag
        if len(text) > MAX_DIGITS and event.implicit[0]:  # not for the resolver, whose patterns take memory with each character
            if _NUMBER_LIKE.fullmatch(text):
                _invalid(f"a number has {len(text)} digits", event)
            return text
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
        elif tag != _STR:
            if len(text) > MAX_DIGITS:
                _refuse_tag(event)
            meant = self._loader.resolve(yaml.ScalarNode, text, (True, False))
            if tag != meant and tag != _FLOAT:  # YAML 1.1 takes 1e5 for text
                _refuse_tag(event)
        if tag == _NULL:
            return None
        if tag == _BOOL:
            return self._loader.bool_values[text.lower()]
        if tag == _DATE:
            raise _Refused("is a date; put it in quotes to make it text", event, text[:40])
        return self._number(event, tag) if tag in (_INT, _FLOAT) else text

    def _number(self, event: Any, tag: str) -> int | float:
        node = yaml.ScalarNode(tag, event.value)
        try:
            if tag == _INT:
                return int(self._loader.construct_yaml_int(node))
            number = float(self._loader.construct_yaml_float(node))
        except (ValueError, IndexError):  # 0x_ passes for a number, and so does what is tagged as one
            _invalid("this is no number", event)
        except OverflowError:  # YAML 1.1 has numbers to the base of 60: 1:30:00.5
            _invalid("a number is too large", event)
        return parse_float(repr(number)) if math.isfinite(number) else number


def _merged(value: Any, event: Any) -> dict[str, Any]:
    """What `<<` brings in: a mapping, or several of which the first that has a key decides."""
    mappings = value if isinstance(value, list) else [value]
    merged: dict[str, Any] = {}
    for mapping in reversed(mappings):
        if not isinstance(mapping, dict):
            _invalid("<< must be followed by a mapping, or by a list of mappings", event)
        merged |= mapping
    return merged


def _invalid(problem: str, event: Any) -> NoReturn:
    mark = event.start_mark
    raise _Refused(f"is not valid YAML: line {mark.line + 1}, column {mark.column + 1}: {problem}", event)


def _refuse_tag(event: Any) -> NoReturn:
    tag = "!!" + event.tag.removeprefix(_TAG) if event.tag.startswith(_TAG) else event.tag
    _invalid(f"the tag {spelled(tag)} does not fit here; leave it out", event)
