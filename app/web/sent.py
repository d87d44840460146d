"""What a problem says of a value: how it was sent, in JSON, whatever Python made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any

from emplace.placement.errors import BrokenRule

_MAX_CHARACTERS = 80


def as_sent(broken: BrokenRule, body: Any) -> BrokenRule:
    """The broken rule with the value that its pointer leads to in the body; unchanged where it leads nowhere or shows none."""
    if not broken.value:
        return broken
    value = body
    for part in broken.pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key) if isinstance(value, list) else key]
        except (LookupError, TypeError, ValueError):
            return broken
    return replace(broken, value=_start_of_json(value))


def _start_of_json(value: Any) -> str:
    """Shortened, and never written out whole: a value can be as large as a body. What only YAML has (a date) is text."""
    chunks = json.JSONEncoder(ensure_ascii=False, skipkeys=True, default=str).iterencode(value)
    text = "".join(islice(chunks, _MAX_CHARACTERS))
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."
