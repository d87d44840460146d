"""Two plans beside each other: what each rank has in one to the left, in the other to the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_ROWS = 128


@dataclass(frozen=True)
class Pair:
    """None where a plan has no such rank."""

    label: str
    left: float | None
    right: float | None


@dataclass(frozen=True)
class Mirror:
    """Both sides on one scale. Of many pairs those that differ most are shown, in their order."""

    title: str
    kind: str
    left: str
    right: str
    pairs: tuple[Pair, ...]
    scale: float
    left_out: int


def mirror(title: str, kind: str, sides: tuple[str, str], pairs: Sequence[Pair]) -> Mirror:
    """The pairs that differ most, of too many."""
    by_change = sorted(range(len(pairs)), key=lambda index: (-abs((pairs[index].right or 0.0) - (pairs[index].left or 0.0)), index))
    shown = tuple(pairs[index] for index in sorted(by_change[:MOST_ROWS]))
    scale = max((value for pair in pairs for value in (pair.left, pair.right) if value is not None), default=0.0)
    return Mirror(title, kind, *sides, shown, scale or 1.0, len(pairs) - len(shown))
