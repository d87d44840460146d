"""Sizes and rates as people type them: a number and a unit, never a bare number.

GiB is 2**30 bytes and GB is 10**9 bytes. Sizes are ints (bytes), rates are floats (bytes or flop per second).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_SIZE_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_RATE_UNITS: dict[str, float] = {f"{unit}/s": factor for unit, factor in _SIZE_UNITS.items()}
_RATE_UNITS |= {"Mbit/s": 10**6 / 8, "Gbit/s": 10**9 / 8, "Tbit/s": 10**12 / 8}
_FLOP_UNITS = {"GFLOP/s": 10**9, "TFLOP/s": 10**12}

MAX_SIZE_BYTES = 2**47
"""128TiB: the memories of the most nodes and remote servers that a host may have still add up within 62 bits."""
MAX_PER_S = 10.0**18
"""Bytes or flop per second; the least is 1."""

NUMBER = r"[0-9]{1,400}(?:\.[0-9]{1,400})?"
_NUMBER_AND_UNIT = re.compile(rf"\s*({NUMBER})\s*([A-Za-z/]+)\s*")


def _parse(value: Any, units: dict[str, Any], what: str, example: str) -> Decimal:
    match = _NUMBER_AND_UNIT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise ValueError(f"must be a {what} with a unit ({', '.join(units)}), such as {example!r}")
    return Decimal(match[1]) * Decimal(units[match[2]])


def parse_size(value: Any) -> int:
    """`"40GiB"` -> 42949672960. Raises ValueError for a bare number, an unknown unit, more than 128TiB or a part of a byte."""
    size = _parse(value, _SIZE_UNITS, "size", "40GiB")
    if size > MAX_SIZE_BYTES:
        raise ValueError(f"must be at most {format_size(MAX_SIZE_BYTES)}")
    if size != int(size):
        raise ValueError("must be a whole number of bytes")
    return int(size)


def parse_rate(value: Any) -> float:
    """`"900GB/s"` -> 9e11 bytes per second; `"25Gbit/s"` -> 3.125e9. Raises ValueError, also below 1B/s and above 1000000TB/s."""
    return _in_range(_parse(value, _RATE_UNITS, "rate", "900GB/s"), "1B/s", "1000000TB/s")


def parse_flops(value: Any) -> float:
    """`"15.7TFLOP/s"` -> 1.57e13. Raises ValueError, also below 1 FLOP/s and above 1000000TFLOP/s."""
    return _in_range(_parse(value, _FLOP_UNITS, "compute rate", "15.7TFLOP/s"), "0.000000001GFLOP/s", "1000000TFLOP/s")


def _in_range(per_s: Decimal, least: str, most: str) -> float:
    if not 1 <= per_s <= MAX_PER_S:
        raise ValueError(f"must be at least {least} and at most {most}")
    return float(per_s)


def _largest_exact(value: int | float, units: dict[str, Any]) -> str:
    exact = Decimal(str(value))
    for unit, factor in sorted(units.items(), key=lambda item: -item[1]):
        scaled = exact / Decimal(factor)
        if scaled >= 1 and scaled == round(scaled, 3):
            return f"{scaled.normalize():f}{unit}"
    smallest = min(units, key=units.__getitem__)
    return f"{(exact / Decimal(units[smallest])).normalize():f}{smallest}"


def format_size(size_bytes: int) -> str:
    """The shortest exact spelling: parse_size(format_size(n)) == n."""
    return _largest_exact(size_bytes, _SIZE_UNITS)


def format_rate(bytes_per_s: float) -> str:
    """A spelling that parse_rate reads back to the same float."""
    return _largest_exact(bytes_per_s, _SIZE_UNITS) + "/s"


def format_flops(flops_per_s: float) -> str:
    """A spelling that parse_flops reads back to the same float."""
    return _largest_exact(flops_per_s, _FLOP_UNITS)


def show_gib(size_bytes: int) -> str:
    """For people: `31.42 GiB`; below a hundredth of a GiB, MiB or bytes."""
    if abs(size_bytes) >= 2**30 / 100:
        return f"{size_bytes / 2**30:.2f} GiB"
    return f"{size_bytes / 2**20:.2f} MiB" if abs(size_bytes) >= 2**20 / 100 else f"{size_bytes} B"


def _schema(units: dict[str, Any], example: str) -> WithJsonSchema:
    """What an editor can check of it."""
    names = "|".join(sorted(units, key=len, reverse=True))
    return WithJsonSchema({"type": "string", "pattern": rf"^\s*{NUMBER}\s*({names})\s*$", "examples": [example]})


Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size), _schema(_SIZE_UNITS, "40GiB")]
ReservedSize = Annotated[Size, _schema(_SIZE_UNITS, "2GiB")]
"""Is taken off another size: the examples of both go together."""
Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    PlainSerializer(format_rate),
    _schema(_RATE_UNITS, "900GB/s"),
]
Flops = Annotated[
    float,
    BeforeValidator(parse_flops),
    PlainSerializer(format_flops),
    _schema(_FLOP_UNITS, "15.7TFLOP/s"),
]
