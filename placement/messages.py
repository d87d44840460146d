"""Broken rules and values in words: what pydantic says, as people who write documents would."""

from __future__ import annotations

import math
import reprlib
from typing import Any

from pydantic_core import ErrorDetails

from emplace.placement.model import NAME_PATTERN

MAX_SHOWN_VALUE = 80
_LONG_BITS = 4096
_MAX_HINTED = 1e15
_NUMBERS = {"int_type": "a whole number", "float_type": "a number"}
_WORDS = {
    "extra_forbidden": "unknown key; remove it or correct its spelling",
    "missing": "is required",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}


def rule_of(detail: ErrorDetails) -> str:
    """The rule that a value breaks, and what to write instead where that can be told."""
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind in _NUMBERS:
        return f"must be {_NUMBERS[kind]}" + _number_meant(kind, value)
    if kind == "string_type":
        return "must be text" + ("" if value is None or isinstance(value, (dict, list, tuple)) else "; put it in quotes")
    if kind == "too_short":
        return f"must have at least {_items(context['min_length'])}, has {context['actual_length']}"
    if kind == "too_long":
        return f"must have at most {_items(context['max_length'])}, has {context['actual_length']}"
    if kind == "string_pattern_mismatch" and context["pattern"] == NAME_PATTERN:
        return "must be at most 200 letters, digits, '_', ':' and '-', the first a letter, a digit or '_'"
    return _WORDS.get(kind) or detail["msg"].removeprefix("Value error, ").replace("Input should", "must").replace("String should", "must")


def _items(number: int) -> str:
    return f"{number} item{'' if number == 1 else 's'}"


def _number_meant(kind: str, value: Any) -> str:
    """A hint for text that spells a number, else nothing: YAML 1.1 takes 1e1 for text, and so is anything in quotes."""
    if not isinstance(value, str):
        return ""
    try:
        number = float(value)
    except ValueError:
        return ""
    if not math.isfinite(number) or abs(number) > _MAX_HINTED or (kind == "int_type" and not number.is_integer()):
        return ""
    return f", this is text; write {int(number) if kind == 'int_type' else _as_yaml(number)}"


def _as_yaml(number: float) -> str:
    """With a point before the exponent: 1.0e-05."""
    text = repr(number)
    return text if "." in text else text.replace("e", ".0e")


def spelled(value: Any) -> str:
    """A value as a document spells it, cut where it is long."""
    text = _BRIEFLY.repr(value)
    return text if len(text) <= MAX_SHOWN_VALUE else text[: MAX_SHOWN_VALUE - 3] + "..."


class _AsWritten(reprlib.Repr):
    """Where YAML and JSON spell otherwise than Python; the base class finds these methods by the names of types."""

    def repr_NoneType(self, _: None, __: int) -> str:
        return "null"

    def repr_bool(self, value: bool, _: int) -> str:
        return str(value).lower()

    def repr_int(self, value: int, level: int) -> str:
        # Python makes no text of thousands of digits.
        return super().repr_int(value, level) if value.bit_length() < _LONG_BITS else f"a number of {value.bit_length()} bits"

    def repr_date(self, value: Any, _: int) -> str:
        return str(value)

    def repr_datetime(self, value: Any, _: int) -> str:
        return str(value)

    def repr_tuple(self, value: tuple[Any, ...], level: int) -> str:
        return self.repr_list(list(value), level)


_BRIEFLY = _AsWritten()
_BRIEFLY.maxstring = _BRIEFLY.maxother = _BRIEFLY.maxlong = MAX_SHOWN_VALUE
