"""Tables against ranks: how much of each table, in bytes, time or lookups, is where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

LEVELS = 8


@dataclass(frozen=True)
class Run:
    """Neighbouring ranks, from `first` on, with about as much of a table: `level` from 1 to LEVELS."""

    first: int
    ranks: int
    level: int


@dataclass(frozen=True)
class HeatRow:
    name: str
    total: float
    runs: tuple[Run, ...]
    most: tuple[tuple[int, float], ...]
    """(rank, amount) of the ranks that have most of it."""


@dataclass(frozen=True)
class HeatMap:
    """`sums` are of each rank, over all tables and not only those shown. A level is a step of the square root of the share of `largest`."""

    what: str
    kind: str
    """time, bytes or count."""
    ranks: int
    sums: tuple[float, ...]
    rows: tuple[HeatRow, ...]
    largest: float


def heat_map(what: str, kind: str, names: Sequence[str], amounts: NDArray[np.float64], shown: Sequence[int]) -> HeatMap:
    """`amounts` is [T, R]; `shown` are the tables on the map, in its order."""
    largest = float(amounts.max(initial=0.0))
    rows = tuple(_row(names[index], amounts[index], largest) for index in shown)
    return HeatMap(what, kind, amounts.shape[1], tuple(amounts.sum(axis=0).tolist()), rows, largest)


def level_of(amount: NDArray[np.float64], largest: float) -> NDArray[np.int64]:
    """0 for nothing, LEVELS for the largest."""
    share = amount / (largest or 1.0)
    return np.where(amount > 0, np.clip(np.ceil(LEVELS * np.sqrt(share)), 1, LEVELS), 0).astype(np.int64)


def _row(name: str, amounts: NDArray[np.float64], largest: float) -> HeatRow:
    runs, first = [], 0
    for level, same in groupby(level_of(amounts, largest).tolist()):
        length = len(list(same))
        if level:
            runs.append(Run(first, length, level))
        first += length
    most = sorted(((rank, amount) for rank, amount in enumerate(amounts.tolist()) if amount), key=lambda each: (-each[1], each[0]))
    return HeatRow(name, float(amounts.sum()), tuple(runs), tuple(most[:4]))
