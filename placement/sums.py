"""Sums of floats that are the same on every Python."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def add_up(values: Iterable[float]) -> float:
    """The values added from left to right. sum() of Python 3.12 and newer corrects its rounding errors, that of 3.11 doesn't."""
    total = 0.0
    for value in values:
        total += value
    return total


def imbalance(times_us: Collection[float]) -> float:
    """How much longer than the mean the longest of these times is, as a factor; 1 where none takes any."""
    total_us = add_up(times_us)
    return max(times_us) * len(times_us) / total_us if total_us > 0 else 1.0
