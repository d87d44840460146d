"""Changes of a document written into its text, so that comments and layout stay: values replaced, keys added and removed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

from emplace.app.reports.paste import Replacement

_REMOVED = object()
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_PLAIN = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
MAX_CHARACTERS = 4_000_000


@dataclass(frozen=True)
class _Edit:
    begin: int
    end: int
    text: str


def replacements(text: str, before: dict[str, Any], after: dict[str, Any], *, as_json: bool) -> tuple[Replacement, ...] | None:
    """What to replace in the text of `before`, in order; None where that can't be told: the result is for the caller to read again."""
    if len(text) > MAX_CHARACTERS:
        return None
    root: Any = yaml.compose(text, Loader=yaml.CSafeLoader)
    try:
        edits = sorted(_edits(text, root, before, after, as_json), key=lambda edit: edit.begin)
    except LookupError:
        return None
    if any(second.begin < first.end for first, second in pairwise(edits)):
        return None
    return tuple(_located(text, edit) for edit in edits)


def applied(text: str, changes: tuple[Replacement, ...]) -> str:
    """The text with all of them."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for change in reversed(changes):
        begin, end = starts[change.line - 1] + change.column - 1, starts[change.end_line - 1] + change.end_column - 1
        text = text[:begin] + change.text + text[end:]
    return text


def _located(text: str, edit: _Edit) -> Replacement:
    line, column = _place(text, edit.begin)
    end_line, end_column = _place(text, edit.end)
    return Replacement(line=line, column=column, end_line=end_line, end_column=end_column, text=edit.text)


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _edits(text: str, node: Any, before: Any, after: Any, as_json: bool) -> Iterator[_Edit]:
    """Raises LookupError where the text has no such part."""
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(node, yaml.MappingNode):
        for key in dict.fromkeys([*before, *after]):
            then, now = before.get(key, _REMOVED), after.get(key, _REMOVED)
            if then != now:
                yield from _edits_of_key(text, node, key, then, _REMOVED if now == {} else now, as_json)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after) and isinstance(node, yaml.SequenceNode):
        for part, then, now in zip(node.value, before, after, strict=True):
            if then != now:
                yield from _edits(text, part, then, now, as_json)
    else:
        yield _Edit(node.start_mark.index, _end(node), _spelled(after, as_json))


def _edits_of_key(text: str, node: Any, key: str, then: Any, now: Any, as_json: bool) -> Iterator[_Edit]:
    index = next((index for index, (name, _) in enumerate(node.value) if name.value == key), None)
    if now is _REMOVED:
        if index is None:
            raise LookupError(key)
        yield _removal(text, node, index)
    elif index is not None:
        yield from _edits(text, node.value[index][1], then, now, as_json)
    else:
        yield _insertion(text, node, key, now, as_json)


def _removal(text: str, node: Any, index: int) -> _Edit:
    name, value = node.value[index]
    if not node.flow_style:
        begin = text.rfind("\n", 0, name.start_mark.index) + 1
        if text[begin : name.start_mark.index].strip():
            raise LookupError(name.value)  # it follows the dash of its list
        return _Edit(begin, _line_end(text, _end(value)) + 1, "")
    if index > 0:
        return _Edit(_end(node.value[index - 1][1]), _end(value), "")
    end = node.value[1][0].start_mark.index if len(node.value) > 1 else _end(value)
    return _Edit(name.start_mark.index, end, "")


def _insertion(text: str, node: Any, key: str, value: Any, as_json: bool) -> _Edit:
    """After the last key."""
    name, last = node.value[-1]
    spelled = f"{json.dumps(key) if as_json else key}: {_spelled(value, as_json)}"
    if node.flow_style:
        own_line = text[text.rfind("\n", 0, name.start_mark.index) + 1 : name.start_mark.index]
        separator = f",\n{own_line}" if not own_line.strip() and len(node.value) > 1 else ", "
        return _Edit(_end(last), _end(last), f"{separator}{spelled}")
    end = _line_end(text, _end(last))
    return _Edit(end, end, f"\n{' ' * name.start_mark.column}{spelled}")


def _end(node: Any) -> int:
    """Where a value ends: that of a block lies before the blank lines and comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return int(node.end_mark.index)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _spelled(value: Any, as_json: bool) -> str:
    if isinstance(value, str) and not as_json and _PLAIN.fullmatch(value) and value.lower() not in _NO_PLAIN:
        return value
    return json.dumps(value, ensure_ascii=False)
