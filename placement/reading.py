"""From untrusted text to a document, or to an error that names source, field, value and rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from placement.document import Document
from placement.errors import InvalidDocument, Problem

MAX_DOCUMENT_BYTES = 32 * 2**20
MAX_NODES = 4_000_000
"""Values in a document after aliases are written out."""
_MAX_SHOWN_VALUE = 80
_MAX_SHOWN_PROBLEMS = 20

D = TypeVar("D", bound=Document)


def read_file(path: Path, kind: type[D]) -> D:
    """The document in a YAML or JSON file. Raises InvalidDocument."""
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise InvalidDocument(str(path), [_too_large(path.stat().st_size)])
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidDocument(str(path), [Problem("", "", f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidDocument(str(path), [Problem("", "", "must be UTF-8 text")]) from None
    return read_text(text, kind, source=str(path), as_json=path.suffix == ".json")


def read_text(text: str, kind: type[D], *, source: str, as_json: bool) -> D:
    """The document that `text` spells. Raises InvalidDocument."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(source, [_too_large(len(text))])
    return from_data(parse_json(text, source) if as_json else parse_yaml(text, source), kind, source=source)


def from_data(data: Any, kind: type[D], *, source: str, pointer: str = "") -> D:
    """Validate plain data. `pointer` is where it sits in what the person sent."""
    if not isinstance(data, dict):
        raise InvalidDocument(source, [Problem(pointer, _shown(data), "must be a mapping")])
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidDocument(source, problems_of(error, pointer)) from None


def problems_of(error: ValidationError, pointer: str = "") -> list[Problem]:
    """One problem per broken rule, in document order."""
    details = error.errors(include_url=False, include_context=False)
    problems = [
        Problem(
            pointer + _pointer(detail["loc"]),
            "" if detail["type"] == "missing" else _shown(detail["input"]),
            _rule(detail["type"], detail["msg"]),
        )
        for detail in details[:_MAX_SHOWN_PROBLEMS]
    ]
    if len(details) > _MAX_SHOWN_PROBLEMS:
        problems.append(Problem(pointer, "", f"and {len(details) - _MAX_SHOWN_PROBLEMS} more problems"))
    return problems


def parse_json(text: str, source: str) -> Any:
    """JSON without NaN, infinity or repeated keys. Raises InvalidDocument."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_mapping_without_repeats)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(source, [Problem("", "", f"is not valid JSON: {error}")]) from None


def parse_yaml(text: str, source: str) -> Any:
    """YAML of plain values, without repeated keys, and of bounded size once aliases are written out. Raises InvalidDocument."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _expanded_nodes(node, {}) > MAX_NODES:
            raise InvalidDocument(source, [Problem("", "", f"has more than {MAX_NODES} values once its aliases are written out")])
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: " if error.problem_mark else ""
        raise InvalidDocument(source, [Problem("", "", f"is not valid YAML: {where}{error.problem}")]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidDocument(source, [Problem("", "", f"is not valid YAML: {error}")]) from None
    finally:
        loader.dispose()


class _Loader(yaml.CSafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is repeated", key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else id(key))
        return super().construct_mapping(node, deep)


def _expanded_nodes(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Nodes below and including `node`; a node that contains itself counts as too many."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = MAX_NODES + 1
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        sizes[id(node)] = 1 + sum(_expanded_nodes(part, sizes) for part in parts)
    return sizes[id(node)]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON allows")


def _mapping_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is repeated")
    return mapping


def _too_large(size: int) -> Problem:
    return Problem("", f"{size} bytes", f"must be at most {MAX_DOCUMENT_BYTES} bytes")


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON pointer, without the tags that pydantic adds for the members of a union."""
    parts = [str(part) for index, part in enumerate(location) if not _is_union_tag(location, index)]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


_LENGTH_TAGS = {"fixed", "poisson", "lognormal", "power_law", "quantiles", "histogram"}


def _is_union_tag(location: tuple[int | str, ...], index: int) -> bool:
    part, before = location[index], location[index - 1] if index else None
    return (before == "length" and part in _LENGTH_TAGS) or (
        before == "access" and part in {"ZipfAccess", "IcdfAccess", "literal['uniform']"}
    )


def _rule(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown key; remove it or correct its spelling"
    if kind == "missing":
        return "is required"
    return message.removeprefix("Value error, ").replace("Input should", "must").replace("Tuple should", "must")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN_VALUE else text[: _MAX_SHOWN_VALUE - 3] + "..."
