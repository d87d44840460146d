"""What a document's text may hold, YAML or JSON: no more than JSON knows, and no more of it than can be read in a moment."""

from __future__ import annotations

MAX_VALUES = 4_000_000
"""In one document, aliases written out."""
MAX_DIGITS = 400
MAX_KEYS = 100_000
"""Keys of one mapping."""
_MAX_EXACT = 2.0**53


def parse_float(text: str) -> int | float:
    """The number; a whole one that a float holds exactly is an int, however it is spelled."""
    number = float(text)
    return int(number) if abs(number) <= _MAX_EXACT and number.is_integer() else number
