"""What a converter hands back, and what converters share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emplace.placement.errors import BrokenRule, InvalidDocument

COLUMNS = 4
"""Rows of tables are whole vectors of so many columns."""
MOST_FEATURES = 10_000
MOST_ROWS = 10**12
MOST_WIDE = 65_536
MOST_IDS = 10_000
"""The longest feature that is spread evenly up to its length: more is a long list."""


@dataclass(frozen=True)
class Converted:
    """The data of a model document, not yet read, and what is not as it was."""

    data: dict[str, Any]
    notes: tuple[str, ...]


def table(name: str, rows: int, columns: int, lengths: Mapping[str, Any]) -> dict[str, Any]:
    """One table and the lengths of its features by name."""
    features = [{"name": feature, "length": length} for feature, length in lengths.items()]
    return {"name": name, "num_embeddings": rows, "embedding_dim": -(-columns // COLUMNS) * COLUMNS, "features": features}


def padding_notes(names: Mapping[str, int]) -> list[str]:
    """Which tables are wider than they were, by their columns of before."""
    odd = [name for name, columns in names.items() if columns % COLUMNS]
    return [f"embedding_dim is rounded up to a multiple of {COLUMNS} in {', '.join(odd)}"] if odd else []


def wanted(data: Mapping[str, Any], key: str, kind: type | tuple[type, ...], source: str, pointer: str = "") -> Any:
    """A value that must be there. Raises InvalidDocument."""
    value = data.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        words = "is required" if value is None else "has another type here"
        raise InvalidDocument(source, [BrokenRule(f"{pointer}/{key}", "" if value is None else repr(value)[:80], words)])
    return value


def whole(data: Mapping[str, Any], key: str, default: int | None, most: int, source: str, pointer: str = "") -> int:
    """A number from 1 to `most`; `default` where it is absent, or 0. Raises InvalidDocument."""
    value = data.get(key) or default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise InvalidDocument(source, [BrokenRule(f"{pointer}/{key}", repr(value)[:80], f"must be a whole number from 1 to {most}")])
    return value


def whole_numbers(text: object, source: str, pointer: str) -> list[int]:
    """`"4-3-2"`: numbers with hyphens between them. Raises InvalidDocument."""
    try:
        return [int(part) for part in str(text).split("-")]
    except ValueError:
        raise InvalidDocument(source, [BrokenRule(pointer, repr(text)[:80], "must be whole numbers with hyphens between them")]) from None


def up_to(most: int) -> dict[str, Any]:
    """The lengths of round(r x most), at least 1, for r drawn evenly from 0 to 1."""
    if most == 1:
        return {"fixed": 1}
    weights = [1.5 / most, *[1 / most] * (most - 2), 0.5 / most]
    return {"histogram": {"lengths": list(range(1, most + 1)), "weights": weights}}


def in_modules(tables: list[dict[str, Any]], unpooled: Sequence[bool]) -> list[dict[str, Any]]:
    """An EmbeddingCollection for each width of the tables that are not pooled, and a collection of all others; each table gets its own.
    None where all are pooled."""
    if not any(unpooled):
        return []
    for entry, is_sequence in zip(tables, unpooled, strict=True):
        entry["module"] = f"ec_{entry['embedding_dim']}" if is_sequence else "ebc"
    paths = dict.fromkeys(entry["module"] for entry in tables)
    return [{"path": path} if path == "ebc" else {"path": path, "pooling": "none"} for path in paths]


def listed_briefly(names: Sequence[str], most: int = 8) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
