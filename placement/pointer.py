"""JSON pointers (RFC 6901)."""

from __future__ import annotations

from jsonpointer import JsonPointer


def pointer_to(*parts: str | int) -> str:
    """The pointer that leads through these keys and indexes, whatever characters the keys have; no parts are the whole document."""
    return str(JsonPointer.from_parts(parts).path)


def parts_of(pointer: str) -> list[str]:
    """The keys and indexes, as text, that a pointer leads through."""
    return list(JsonPointer(pointer).parts)
