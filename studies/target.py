"""What a job must reach: examples per second, or so many examples until a deadline."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, WithJsonSchema

from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kMGT]?)")
_TIMES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
_LEAST, _MOST = 1e-6, 1e30
"""What is further out is a slip of the keyboard, and no number with which anything can be reckoned."""
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

AMOUNT_SCHEMA = {"type": "string", "pattern": "^[0-9]{1,20}(\\.[0-9]{1,20})?[kMGT]?$", "examples": ["500k"]}
_AmountText = Annotated[str, WithJsonSchema(AMOUNT_SCHEMA)]
Amount = _AmountText | Annotated[int, Field(strict=True, gt=0)] | Annotated[float, Field(strict=True, gt=0)]
"""500000, or "500k"."""


class Target(Document):
    """Examples per second, and where they come from."""

    throughput: Annotated[float, Field(gt=0)]
    examples: float | None = None
    deadline_s: float | None = None


def target_of(throughput: str | None, examples: str | None, deadline: str | None) -> Target:
    """Raises InvalidDocument for neither, both, or one that is no amount."""
    if throughput is not None and examples is None and deadline is None:
        return Target(throughput=_amount("--throughput", throughput))
    if throughput is None and examples is not None and deadline is not None:
        count, seconds = _amount("--examples", examples), _duration(deadline)
        return Target(throughput=count / seconds, examples=count, deadline_s=seconds)
    rule = "say what the job must reach: --throughput 500k, or both --examples 10G and --deadline 8h"
    raise InvalidDocument("--throughput", [BrokenRule("", "", rule)])


def amount_of(text: str) -> float:
    """`500k` as a number. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    if match is None or not _LEAST <= float(match[1]) <= _MOST:
        raise ValueError("must be a number above 0, with k, M, G or T where it is large, such as 500k")
    return float(match[1]) * _TIMES[match[2]]


def _amount(option: str, text: str) -> float:
    try:
        return amount_of(text)
    except ValueError as error:
        raise InvalidDocument(option, [BrokenRule("", text[:100], str(error))]) from None


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None or not _LEAST <= float(match[1]) <= _MOST:
        raise InvalidDocument("--deadline", [BrokenRule("", text[:100], "must be a time with s, m, h or d, such as 90m or 8h")])
    return float(match[1]) * _SECONDS[match[2]]
