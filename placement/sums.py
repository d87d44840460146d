"""Sums of floats that are the same on every Python."""

from __future__ import annotations

from collections.abc import Iterable


def add_up(values: Iterable[float]) -> float:
    """The values added from left to right. sum() of Python 3.12 and newer corrects its rounding errors, that of 3.11 doesn't."""
    total = 0.0
    for value in values:
        total += value
    return total
