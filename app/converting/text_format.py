"""Protocol buffers' text format without their schema: each field is a list of what stands there, a message a mapping of fields.

https://protobuf.dev/reference/protobuf/textformat-spec
"""

from __future__ import annotations

import ast
import re
from typing import Any

from emplace.placement.errors import BrokenRule, InvalidDocument

Message = dict[str, list[Any]]
_TOKEN = re.compile(
    r"""[ \t\r\n\f\v]+ | \#[^\n]*
    | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<extension> \[[A-Za-z_][\w./]*[./][\w./]*\] )
    | (?P<word> -?[ ]*[\w.+]+(?:(?<=[eE])-\d+)? )
    | (?P<sign> [][{}<>:,;] )""",
    re.VERBOSE,
)
_CLOSED_BY = {"{": "}", "<": ">"}
_DEEPEST, _MOST_CHARACTERS = 100, 2 * 2**20


def parse_text_format(text: str, source: str) -> Message:
    """The message that a file spells. Raises InvalidDocument."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidDocument(source, [BrokenRule("", "", f"must have at most {_MOST_CHARACTERS:,} characters, has {len(text):,}")])
    return _Reader(text, source).message(end="", depth=0)


class _Reader:
    """`kind`, `token` and `line` are of what comes next; kind is empty at the end."""

    def __init__(self, text: str, source: str) -> None:
        self._text, self._source = text, source
        self._at, self._line = 0, 1
        self._kind = self._token = ""
        self._next()

    def message(self, end: str, depth: int) -> Message:
        """Fields up to `end`, which is taken too."""
        if depth > _DEEPEST:
            raise self._broken(f"is nested deeper than {_DEEPEST} messages")
        found: Message = {}
        while self._kind and self._token != end:
            if self._kind not in ("word", "extension"):
                raise self._broken("a field's name was expected")
            name = self._taken()
            found.setdefault(name, []).extend(self._values(depth))
            if self._token in (",", ";"):
                self._next()
        if self._token != end:
            raise self._broken(f"a {end} was expected")
        self._next()
        return found

    def _values(self, depth: int) -> list[Any]:
        """What stands after a field's name: a list counts as the field several times."""
        has_colon = self._token == ":"
        if has_colon:
            self._next()
        if self._token != "[":
            return [self._value(depth, has_colon)]
        self._next()
        found: list[Any] = []
        while self._token != "]":
            found.append(self._value(depth, has_colon))
            if self._token == ",":
                self._next()
            elif self._token != "]":
                raise self._broken("a comma or a ] was expected")
        self._next()
        return found

    def _value(self, depth: int, has_colon: bool) -> Any:
        if self._token in _CLOSED_BY:
            return self.message(_CLOSED_BY[self._taken()], depth + 1)
        if not has_colon:
            raise self._broken("a colon or a { was expected after the field's name")
        if self._kind == "text":
            parts = []
            while self._kind == "text":
                parts.append(_unquoted(self._taken()))
            return "".join(parts)
        if self._kind != "word":
            raise self._broken("a value was expected")
        return _scalar(self._taken())

    def _taken(self) -> str:
        token = self._token
        self._next()
        return token

    def _next(self) -> None:
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            self._line += self._text.count("\n", self._at, match.end() if match else self._at)
            if match is None:
                self._token = self._text[self._at]
                raise self._broken("is no text format of protocol buffers")
            self._at = match.end()
            if match.lastgroup is not None:
                self._kind, self._token = match.lastgroup, match[0]
                return
        self._kind = self._token = ""

    def _broken(self, rule: str) -> InvalidDocument:
        return InvalidDocument(self._source, [BrokenRule("", self._token[:80] or "the end", rule, self._line)])


def _scalar(word: str) -> Any:
    """A number where it is one, else the word of an enumeration."""
    spelled = word.replace(" ", "")
    for kind in (lambda: int(spelled, 0), lambda: int(spelled), lambda: float(spelled.rstrip("fF"))):
        try:
            return kind()
        except ValueError:
            continue
    return {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False}.get(spelled, spelled)


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return text[1:-1]
