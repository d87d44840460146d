"""What a job must reach: examples per second, or so many examples until a deadline."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kMGT]?)")
_TIMES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
_LEAST, _MOST = 1e-6, 1e30
"""What is further out is a slip of the keyboard, and no number with which anything can be reckoned."""
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

AMOUNT_SCHEMA = {"type": "string", "pattern": "^[0-9]{1,20}(\\.[0-9]{1,20})?[kMGT]?$", "examples": ["500k"]}


def amount_of(text: str) -> float:
    """`500k` as a number. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    if match is None or not _LEAST <= float(match[1]) <= _MOST:
        raise ValueError("must be a number above 0, with k, M, G or T where it is large, such as 500k")
    return float(match[1]) * _TIMES[match[2]]


def number_of(value: Any) -> Any:
    """An amount as a number; what is no text as it is, for its type to judge. Raises ValueError."""
    return amount_of(value) if isinstance(value, str) else value


Amount = Annotated[
    float,
    Field(strict=True, ge=_LEAST, le=_MOST),
    BeforeValidator(number_of),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": _LEAST, "maximum": _MOST}, AMOUNT_SCHEMA]}),
]
"""500000, or "500k"."""


class Target(Document):
    """Examples per second, and where they come from."""

    throughput: Annotated[float, Field(gt=0)]
    examples: float | None = None
    deadline_s: float | None = None


def target_of(throughput: str | float | None, examples: str | float | None, deadline: str | None) -> Target:
    """Amounts are texts or, read already, numbers. Raises InvalidDocument for neither, both, or one that is no amount."""
    if throughput is not None and examples is None and deadline is None:
        return Target(throughput=_amount("--throughput", throughput))
    if throughput is None and examples is not None and deadline is not None:
        count, seconds = _amount("--examples", examples), _duration(deadline)
        return Target(throughput=count / seconds, examples=count, deadline_s=seconds)
    rule = "say what the job must reach: --throughput 500k, or both --examples 10G and --deadline 8h"
    raise InvalidDocument("--throughput", [BrokenRule("", "", rule)])


def _amount(option: str, given: str | float) -> float:
    try:
        return float(number_of(given))
    except ValueError as error:
        raise InvalidDocument(option, [BrokenRule("", str(given)[:100], str(error))]) from None


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None or not _LEAST <= float(match[1]) <= _MOST:
        raise InvalidDocument("--deadline", [BrokenRule("", text[:100], "must be a time with s, m, h or d, such as 90m or 8h")])
    return float(match[1]) * _SECONDS[match[2]]
