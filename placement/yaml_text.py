"""YAML to plain data, of bounded size and depth: what YAML allows beyond that has no place in a document."""

from __future__ import annotations

import math
from typing import Any

import yaml

from emplace.placement.errors import BrokenRule, InvalidDocument

MAX_NODES = 4_000_000
"""Values in a document after aliases are written out."""
MAX_WRITTEN_NODES = 1_000_000
"""Values written in it; YAML is slow to read, a larger document is written as JSON."""
MAX_DEPTH = 50
MAX_DIGITS = 400
_MAX_EXACT = 2.0**53
_OPENING = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


def parse_yaml(text: str, source: str) -> Any:
    """The plain data that `text` spells, without repeated keys. Raises InvalidDocument."""
    loader = _Loader(text)
    try:
        _refuse_deep_or_long(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _expanded_nodes(node, {}) > MAX_NODES:
            raise _TooMuch(f"has more than {MAX_NODES} values once its aliases are written out")
        return loader.construct_document(node)
    except _TooMuch as error:
        rule = str(error)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: " if error.problem_mark else ""
        rule = f"is not valid YAML: {where}{error.problem}"
    except yaml.reader.ReaderError as error:
        rule = f"is not valid YAML: {error.reason} at character {error.position}"
    except (yaml.YAMLError, ValueError) as error:
        rule = f"is not valid YAML: {str(error).partition(';')[0]}"
    finally:
        loader.dispose()
    raise InvalidDocument(source, [BrokenRule("", "", rule)])


def parse_float(text: str) -> int | float:
    """The number; a whole one that a float holds exactly is an int, however it is spelled."""
    number = float(text)
    return int(number) if abs(number) <= _MAX_EXACT and number.is_integer() else number


class _TooMuch(Exception):
    """Valid YAML, but deeper or longer than a document may be."""


class _Loader(yaml.CSafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain value", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is repeated", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        _refuse_long_number(node)
        number: int = super().construct_yaml_int(node)
        return number

    def construct_yaml_float(self, node: yaml.ScalarNode) -> int | float:
        _refuse_long_number(node)
        try:
            number: float = super().construct_yaml_float(node)
        except OverflowError:  # YAML 1.1 has numbers to the base of 60: 1:30:00.5
            raise yaml.constructor.ConstructorError(None, None, "a number is too large", node.start_mark) from None
        return parse_float(repr(number)) if math.isfinite(number) else number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def _refuse_long_number(node: yaml.ScalarNode) -> None:
    """Raises ConstructorError: making a number of its digits takes the square of their count."""
    if len(node.value) > MAX_DIGITS:
        raise yaml.constructor.ConstructorError(None, None, f"a number has {len(node.value)} digits", node.start_mark)


def _refuse_deep_or_long(text: str) -> None:
    """Raises _TooMuch before anything is built: libyaml builds nodes by recursion in C, which text that is deep enough makes crash."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        depth += isinstance(event, _OPENING) - isinstance(event, _CLOSING)
        if depth > MAX_DEPTH:
            raise _TooMuch(f"is nested more than {MAX_DEPTH} levels deep")
        if number > MAX_WRITTEN_NODES:
            raise _TooMuch(f"has more than {MAX_WRITTEN_NODES} values, too many for YAML; write it as JSON")


def _expanded_nodes(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Nodes below and including `node`, aliases written out."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = None
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        sizes[id(node)] = 1 + sum(_expanded_nodes(part, sizes) for part in parts)
    size = sizes[id(node)]
    if size is None:
        raise _TooMuch(f"contains itself through an alias (line {node.start_mark.line + 1})")
    return size
