"""Which points are timed together, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emplace.profiler.design.points import Design, Key, Kind

_ROUND, _ROUND_OF_STEPS = 4, 1
"""Points that are timed together. A whole step takes turns with the reference step and nothing else, as a plan that is trained does."""


@dataclass(frozen=True)
class Round:
    """Points of one kind, by their places in the design, in one sweep."""

    kind: Kind
    sweep: int
    indices: tuple[int, ...]


def rounds(design: Design, done: frozenset[Key]) -> list[Round]:
    """The rounds of everything that is not `done`.

    The kinds take turns, each in the design's order and one sweep after another, so that a deadline cuts off a fair share of each.
    """
    points = design.points
    found = [one for kind, size in points.items() for sweep in range(design.sweeps(kind)) for one in _of_kind(kind, sweep, size, done)]
    return sorted(found, key=lambda one: (one.sweep + one.indices[0] / points[one.kind]) / design.sweeps(one.kind))


def _of_kind(kind: Kind, sweep: int, size: int, done: frozenset[Key]) -> Iterator[Round]:
    left = [index for index in range(size) if (kind, index, sweep) not in done]
    together = _ROUND_OF_STEPS if kind is Kind.STEP else _ROUND
    return (Round(kind, sweep, tuple(left[start : start + together])) for start in range(0, len(left), together))
