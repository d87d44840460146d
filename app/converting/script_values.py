"""What the values of a script are that is read and never run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

MOST_ITEMS, MOST_WEIGHT, MOST_NUMBER = 20_000, 200_000, 10**18
"""Beyond these a value counts as unknown."""


class Unknown:
    """What only running the script would tell."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Symbol:
    """Something imported or not defined in the script: `hugectr.Layer_t.MLP`."""

    path: str

    @property
    def word(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class Call:
    """What is called, with what, on which line."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    line: int


@dataclass(eq=False)
class Made:
    """What a call of something unknown returns, and what is called on it afterwards."""

    call: Call
    calls: list[Call] = field(default_factory=list)


@dataclass(eq=False)
class Function:
    node: ast.FunctionDef


BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
BUILTINS: dict[str, Callable[..., Any]] = {
    "range": lambda *given: few(range(*given)),
    "len": len,
    "str": str,
    "int": int,
    "float": float,
    "list": lambda given=(): few(given),
    "tuple": lambda given=(): tuple(few(given)),
    "sum": sum,
    "min": min,
    "max": max,
    "zip": lambda *given: few(zip(*given, strict=False)),
    "enumerate": lambda given: few(enumerate(given)),
}
METHODS: dict[type, frozenset[str]] = {
    str: frozenset({"join", "split", "strip", "lower", "upper"}),
    list: frozenset({"index", "copy"}),
    dict: frozenset({"get", "keys", "values", "items"}),
}


def few(given: Iterable[Any]) -> Any:
    """A list; unknown where it would be long."""
    found = list(islice(given, MOST_ITEMS + 1))
    return found if len(found) <= MOST_ITEMS else UNKNOWN


def weight(value: Any) -> int:
    """Values and characters in it, counted up to a limit: a list may hold itself, or one long list often."""
    found, left = 0, [value]
    while left and found <= MOST_WEIGHT:
        one = left.pop()
        found += 1 + (len(one) if isinstance(one, (str, list, tuple)) else 0)
        if isinstance(one, (list, tuple)) and found <= MOST_WEIGHT:
            left.extend(one)
    return found


def is_known(value: Any) -> bool:
    """Whether nothing in it is unknown, and it is not too much."""
    found, left = 0, [value]
    while left and found <= MOST_WEIGHT:
        one = left.pop()
        if isinstance(one, (Unknown, Symbol, Made, Function)):
            return False
        if isinstance(one, (list, tuple)):
            left.extend(one)
        found += 1 + (len(one) if isinstance(one, (str, list, tuple)) else 0)
    return found <= MOST_WEIGHT


def computed(apply: Callable[..., Any], *given: Any) -> Any:
    """The result over known values; unknown where there is none, or it would be large."""
    if not all(map(is_known, given)) or not _stays_small(apply, given):
        return UNKNOWN
    try:
        found = apply(*given)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return UNKNOWN
    if weight(found) > MOST_WEIGHT:
        return UNKNOWN
    return UNKNOWN if isinstance(found, int) and abs(found) > MOST_NUMBER else found


def _stays_small(apply: Callable[..., Any], given: tuple[Any, ...]) -> bool:
    """Whether it can be computed at all: powers and repetitions grow beyond any memory."""
    if apply is operator.pow:
        return all(isinstance(each, (int, float)) and abs(each) < 64 for each in given)
    if apply is operator.mul:
        sizes = [
            len(each) if isinstance(each, (str, list, tuple)) else abs(each) if isinstance(each, (int, float)) else 1 for each in given
        ]
        return sizes[0] * sizes[1] <= (MOST_ITEMS if any(isinstance(each, (str, list, tuple)) for each in given) else MOST_NUMBER)
    if apply is operator.mod:
        return not isinstance(given[0], str)
    return True


def formatted(text: str, *given: Any) -> Any:
    """`text.format(...)` with bare fields only: a width may ask for any amount of memory."""
    parts = text.split("{}")
    if "{" in "".join(parts) or len(parts) != len(given) + 1:
        return UNKNOWN
    return "".join(part for pair in zip(parts, [*map(str, given), ""], strict=True) for part in pair)
