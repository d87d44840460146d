"""How many examples had each number of ids, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emplace.executor.traces.measuring import spell_lengths

Ints = NDArray[np.int64]

_KEPT_BITS = 7
"""Shorter lengths than 2^7 are counted by themselves; of others, those that share so many first bits together: within 1.6%."""
BINS = 2**_KEPT_BITS + (64 - _KEPT_BITS) * 2 ** (_KEPT_BITS - 1)


@dataclass
class LengthCounts:
    """Examples by their number of ids, in bins."""

    examples: Ints = field(default_factory=lambda: np.zeros(BINS, np.int64))
    """How many examples each bin has."""
    ids: Ints = field(default_factory=lambda: np.zeros(BINS, np.int64))
    """How many ids the examples of each bin have together: so bins keep their means."""

    def add(self, lengths: Ints) -> None:
        bins = _bins(lengths)
        np.add.at(self.examples, bins, 1)
        np.add.at(self.ids, bins, lengths)

    def merged(self, other: LengthCounts) -> LengthCounts:
        return LengthCounts(self.examples + other.examples, self.ids + other.ids)

    def spelled(self) -> dict[str, Any]:
        """As a feature has it in a model document. There must be an example."""
        seen: Counter[int] = Counter()
        for number in np.flatnonzero(self.examples):
            seen[round(float(self.ids[number] / self.examples[number]))] += int(self.examples[number])
        return spell_lengths(seen)


def _bins(lengths: Ints) -> Ints:
    """The number of each length's bin: half of 2^_KEPT_BITS more for each further bit."""
    dropped = np.maximum(np.frexp(lengths.astype(np.float64))[1] - _KEPT_BITS, 0).astype(np.int64)
    return np.asarray(dropped * 2 ** (_KEPT_BITS - 1) + (lengths >> dropped))
