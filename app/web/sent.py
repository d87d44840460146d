"""The values that problems show: as they were sent, in JSON, whatever Python made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any

import jsonpointer

from emplace.placement.errors import BrokenRule

# A body can be large: no error is to spell it out.
jsonpointer.VERBOSE_EXCEPTIONS = False

_MAX_CHARACTERS = 80
_NOWHERE = object()


def as_sent(broken: BrokenRule, body: Any) -> BrokenRule:
    """The broken rule with the value that its pointer leads to in the body; unchanged where it leads nowhere or shows none."""
    if not broken.value:
        return broken
    value = jsonpointer.resolve_pointer(body, broken.pointer, _NOWHERE)
    return broken if value is _NOWHERE else replace(broken, value=_start_of_json(value))


def _start_of_json(value: Any) -> str:
    """Shortened, and never written out whole: a value can be as large as a body."""
    chunks = json.JSONEncoder(ensure_ascii=False).iterencode(value)
    text = "".join(islice(chunks, _MAX_CHARACTERS))
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."
