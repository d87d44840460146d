"""How often each id of a feature was looked up, in bounded memory: two parts that add up exactly, in any order.

- *A sample of ids*, counted exactly. Those whose hash is below a threshold are in it; the threshold halves when they get too many. So
  it is the same sample on every rank and in every order, and all of a feature's ids as long as they are few.
- *Counters* that ids share by their hash. The sample misses most hot ids; a hot id's counter stands out of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emplace.executor.traces.measuring import spell_counts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_IDS = 2**14
"""The most ids in a sample."""
COUNTERS = 2**14
_HOT_SPREADS = 8
"""A counter is a hot id's where it is so many times as far above the median as the 84th percentile of all is."""


@dataclass
class AccessSketch:
    """About 0.4 MB for a feature with many ids."""

    halvings: int = 0
    """The sample has the ids whose hash is below 2^64 halved so often."""
    ids: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    times: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counters: Ints = field(default_factory=lambda: np.zeros(COUNTERS, np.int64))

    @property
    def lookups(self) -> int:
        return int(self.counters.sum())

    @property
    def largest_id(self) -> int:
        """The largest id in the sample; -1 where there is none."""
        return int(self.ids.max(initial=-1))

    def add(self, ids: Ints, times: Ints) -> None:
        """Different ids, and how often each was looked up."""
        hashes = _hashed(ids)
        np.add.at(self.counters, _counter(hashes), times)
        chosen = _is_below(hashes, self.halvings)
        self._add_to_sample(ids[chosen], times[chosen])

    def merged(self, other: AccessSketch) -> AccessSketch:
        """That of all lookups of both."""
        halvings = max(self.halvings, other.halvings)
        both = AccessSketch(halvings, counters=self.counters + other.counters)
        for each in (self, other):
            chosen = _is_below(_hashed(each.ids), halvings)
            both._add_to_sample(each.ids[chosen], each.times[chosen])
        return both

    def spelled(self, rows: int) -> Any:
        """As a table of so many rows has it in a model document."""
        if not self.halvings:
            return spell_counts(*_runs(self.times, 1.0), rows)
        is_hot = self.counters > _hottest_of_many(self.counters)
        hot = self.counters[is_hot] - round(float(np.median(self.counters)))
        cold = self.times[~is_hot[_counter(_hashed(self.ids))]]
        rows_each = (self.lookups - hot.sum()) / max(cold.sum(), 1)
        values, weights = (np.concatenate(side) for side in zip(_runs(hot, 1.0), _runs(cold, rows_each), strict=True))
        return spell_counts(values, weights, rows)

    def _add_to_sample(self, ids: Ints, times: Ints) -> None:
        self.ids, where = np.unique(np.concatenate([self.ids, ids]), return_inverse=True)
        summed = np.zeros(len(self.ids), np.int64)
        np.add.at(summed, where, np.concatenate([self.times, times]))
        self.times = summed
        while len(self.ids) > MOST_IDS:
            self.halvings += 1
            chosen = _is_below(_hashed(self.ids), self.halvings)
            self.ids, self.times = self.ids[chosen], self.times[chosen]


def _hashed(ids: Ints) -> NDArray[np.uint64]:
    """SplitMix64."""
    bits = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _is_below(hashes: NDArray[np.uint64], halvings: int) -> NDArray[np.bool_]:
    """Its first bits are 0. The counter is of the last ones."""
    return np.asarray(hashes >> np.uint64(64 - halvings) == 0) if halvings else np.ones(len(hashes), bool)


def _counter(hashes: NDArray[np.uint64]) -> Ints:
    return (hashes % np.uint64(COUNTERS)).astype(np.int64)


def _hottest_of_many(counters: Ints) -> float:
    median, high = np.quantile(counters, [0.5, 0.84])
    return float(median + _HOT_SPREADS * max(high - median, 1))


def _runs(times: Ints, rows_each: float) -> tuple[Floats, Floats]:
    """(how often, how many ids that often): each count stands for so many ids."""
    values, ids = np.unique(times, return_counts=True)
    return values.astype(np.float64), np.asarray(ids * rows_each, dtype=np.float64)
