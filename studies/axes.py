"""What a sweep varies: a path of the template's settings, the model, the host or the options, and the values that it takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Annotated, Any

from jsonpointer import JsonPointerException
from pydantic import Field

from emplace.placement.catalog.suite import SuiteSettings
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.pointer import parts_of, pointer_to
from emplace.placement.scalars import scalar_of
from emplace.placement.units import format_flops, format_rate, format_size, parse_flops, parse_rate, parse_size

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
"""The number of an item of a list has no zeros before it (RFC 6901)."""
EVERY = "*"
"""In a path: each item of a list."""
_LEAST_TIMES, _MOST_TIMES = Decimal("0.000001"), Decimal(1_000_000)
_NOT_VARIED = {"schema_version", "name", "description", "source", "sources", "fingerprint", "start", "move_price_us_per_gib"}


class QuestionPart(StrEnum):
    """The part of a question that a path leads into."""

    TEMPLATE = "template"
    MODEL = "model"
    HOST = "host"
    OPTIONS = "options"


_KEYS = {
    QuestionPart.TEMPLATE: set(SuiteSettings.model_fields),
    QuestionPart.MODEL: set(ModelSpec.model_fields) - _NOT_VARIED,
    QuestionPart.HOST: set(HostSpec.model_fields) - _NOT_VARIED,
    QuestionPart.OPTIONS: set(PlanOptions.model_fields) - _NOT_VARIED,
}


class Axis(Document):
    """One thing that is varied, and its values; `x2` is twice what is there."""

    path: str
    part: QuestionPart
    values: Annotated[tuple[Any, ...], Field(min_length=1)]

    @property
    def pointer(self) -> str:
        """Where it is in the data of its part."""
        return pointer_to(self.path.removeprefix("--").replace("-", "_")) if self.part is QuestionPart.OPTIONS else self.path

    @property
    def is_relative(self) -> bool:
        """Whether a value is a multiple of what is there."""
        return any(_factor(value) is not None for value in self.values)

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers, all plain or all factors, so that there is something between two of them."""
        return all(_number(value) is not None for value in self.values) and len({isinstance(value, str) for value in self.values}) == 1


@dataclass(frozen=True)
class Factor:
    """A value relative to the one that is there."""

    times: Decimal


def axis_of(text: str, *, of_template: bool) -> Axis:
    """`/sparse=4,8,16`, `/node/devices/*/hbm_capacity=x1,x2` or `--nodes=1,2,4`. Raises InvalidDocument."""
    path, equals, given = text.partition("=")
    if not equals or not given or not path.startswith(("/", "--")):
        rule = "must be PATH=VALUES, such as /local_batch_size=512,1024 or --nodes=1,2,4, or /node/network=x1,x2 for multiples of what is there"
        raise _refusal(text, rule)
    values = [scalar_of(each) for each in _split(given)]
    if "" in values:
        raise _refusal(text, "has an empty value: separate values by single commas")
    if any((times := _times(value)) is not None and not (times.is_finite() and _LEAST_TIMES <= times <= _MOST_TIMES) for value in values):
        raise _refusal(text, f"multiples must be from x{_LEAST_TIMES} to x{_MOST_TIMES}, such as x0.5 or x2")
    if len({repr(value) for value in values}) != len(values):
        raise _refusal(text, "names a value twice")
    return Axis(path=path, part=_part(path, of_template=of_template), values=tuple(values))


def changed(data: dict[str, Any], axis: Axis, value: Any, source: str) -> dict[str, Any]:
    """A part's data with the value of an axis. Raises InvalidDocument where the pointer leads nowhere."""
    return _with(data, parts_of(axis.pointer), _factor(value) or value, (), axis.path, source)  # type: ignore[no-any-return]


def number_of(value: Any) -> float | None:
    """A value of an axis as a number; None where it has none."""
    return _number(value)


def _part(path: str, *, of_template: bool) -> QuestionPart:
    if path.startswith("--"):
        found = [QuestionPart.OPTIONS] if path.removeprefix("--").replace("-", "_") in _KEYS[QuestionPart.OPTIONS] else []
        known = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(_KEYS[QuestionPart.OPTIONS]))
    else:
        first = _parts(path)[0]
        parts = ([QuestionPart.TEMPLATE] if of_template else [QuestionPart.MODEL]) + [QuestionPart.HOST]
        found = [part for part in parts if first in _KEYS[part]]
        known = "; ".join(f"{', '.join(f'/{key}' for key in sorted(_KEYS[part]))} ({part})" for part in parts)
    if not found:
        raise _refusal(path, f"is not there; what can be varied begins with {known}")
    return found[0]


def _parts(path: str) -> list[str]:
    try:
        return parts_of(path)
    except JsonPointerException:
        raise _refusal(path, "is no JSON pointer: write ~0 for ~ and ~1 for / inside a key") from None


def _split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _with(data: Any, parts: Sequence[str], value: Any, before: tuple[str, ...], path: str, source: str) -> Any:
    if not parts:
        return _scaled(data, value, path, source) if isinstance(value, Factor) else value
    first, rest = parts[0], parts[1:]
    here = pointer_to(*before) or "the document"
    if isinstance(data, list):
        if first == EVERY:
            return [_with(item, rest, value, (*before, str(index)), path, source) for index, item in enumerate(data)]
        if _INDEX.fullmatch(first) is None or int(first) >= len(data):
            raise _refusal(path, f"is not there in {source}: {here} has items 0 to {len(data) - 1}, or * for each")
        item = _with(data[int(first)], rest, value, (*before, first), path, source)
        return [*data[: int(first)], item, *data[int(first) + 1 :]]
    if not isinstance(data, dict):
        raise _refusal(path, f"is not there in {source}: {here} is {data!r}, which has no parts")
    if first not in data and (rest or isinstance(value, Factor)):
        raise _refusal(path, f"is not there in {source}: {here} has {', '.join(sorted(data))}")
    return data | {first: _with(data.get(first), rest, value, (*before, first), path, source)}


def _factor(value: Any) -> Factor | None:
    times = _times(value)
    return None if times is None else Factor(times)


def _times(value: Any) -> Decimal | None:
    """The number after an x; None where that is no multiple."""
    if not isinstance(value, str) or not value.startswith("x"):
        return None
    try:
        return Decimal(value[1:])
    except InvalidOperation:
        return None


def _scaled(data: Any, factor: Factor, path: str, source: str) -> Any:
    """A number, a size or a rate, so many times; what is whole stays so, and at least 1."""
    if isinstance(data, int | float) and not isinstance(data, bool):
        scaled = Decimal(str(data)) * factor.times
        return max(round(scaled), 1) if isinstance(data, int) else float(scaled)
    if isinstance(data, str):
        for parse, spell in ((parse_size, lambda size: format_size(round(size))), (parse_rate, format_rate), (parse_flops, format_flops)):
            try:
                return spell(float(Decimal(parse(data)) * factor.times))
            except ValueError:
                continue
    raise _refusal(path, f"can't be multiplied by {factor.times} in {source}: it is {data!r}; give values")


def _number(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if (factor := _factor(value)) is not None:
        return float(factor.times)
    if isinstance(value, str):
        for parse in (parse_size, parse_rate, parse_flops):
            try:
                return float(parse(value))
            except ValueError:
                continue
    return None


def _refusal(where: str, rule: str) -> InvalidDocument:
    return InvalidDocument("--vary", [BrokenRule(where, "", rule)])
