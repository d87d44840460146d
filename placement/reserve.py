"""A reserve as people type it: a share of a memory, `5%`, or a size, `2GiB`."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from emplace.placement.units import NUMBER, format_size, parse_size

_SHARE = re.compile(rf"\s*({NUMBER})\s*%\s*")


def normal_reserve(value: Any) -> str:
    """The one spelling of a reserve: `5.0 %` -> `5%`, `2048MiB` -> `2GiB`. Raises ValueError."""
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        try:
            return format_size(parse_size(value))
        except ValueError as error:
            raise ValueError(f"{error}, or a share such as '5%'") from None
    share = Decimal(match[1]).normalize()
    if share >= 100:
        raise ValueError("must be less than 100%")
    return f"{share:f}%"


def reserve_bytes(reserve: str | None, capacity_bytes: int) -> int:
    """What a reserve in its normal spelling takes of a memory; a share is rounded up to whole bytes."""
    if reserve is None:
        return 0
    if not reserve.endswith("%"):
        return parse_size(reserve)
    return int((Decimal(reserve[:-1]) * capacity_bytes / 100).to_integral_value(ROUND_CEILING))


Reserve = Annotated[str, BeforeValidator(normal_reserve), WithJsonSchema({"type": "string", "examples": ["5%", "2GiB"]})]
