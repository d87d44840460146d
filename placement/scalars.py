"""Values as a person types them on a command line."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kM])")
_TIMES = {"k": 10**3, "M": 10**6}


def scalar_of(text: str) -> Any:
    """A number (`100k` and `5M` too), true, false, a list or a mapping as JSON spells them; any other text is itself."""
    if (match := _COUNT.fullmatch(text)) is not None:
        value = Decimal(match[1]) * _TIMES[match[2]]
        return int(value) if value == int(value) else float(value)
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text
