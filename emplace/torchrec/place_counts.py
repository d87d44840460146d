"""How many lookups fall where in a table, in bounded memory: counters of equally many neighbouring ids, that add up exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

COUNTERS = 4096
PARTS = 256
"""Equal parts of the rows of a table in a model document."""


@dataclass
class PlaceCounts:
    """Each counter is of 2^bits ids: twice as many as before whenever an id lies beyond the last."""

    bits: int = 0
    lookups: Ints = field(default_factory=lambda: np.zeros(COUNTERS, np.int64))

    def add(self, ids: Ints, times: Ints) -> None:
        """Different ids, and how often each was looked up."""
        bits = int(ids.max(initial=0)).bit_length() - COUNTERS.bit_length() + 1
        self.lookups, self.bits = self._widened(max(bits, self.bits)), max(bits, self.bits)
        np.add.at(self.lookups, ids >> self.bits, times)

    def merged(self, other: PlaceCounts) -> PlaceCounts:
        """That of all lookups of both."""
        bits = max(self.bits, other.bits)
        return PlaceCounts(bits, self._widened(bits) + other._widened(bits))

    def spelled(self, rows: int) -> dict[str, Any]:
        """As a table of so many rows has it in a model document. There must be a lookup, and none beyond the rows."""
        places = np.minimum(np.arange(COUNTERS + 1) << self.bits, rows)
        counted = np.append(0, np.cumsum(self.lookups))
        shares = np.diff(np.interp(np.linspace(0, rows, min(PARTS, rows) + 1), places, counted)) / counted[-1]
        return {"measured": [round(share, 9) for share in shares.tolist()]}

    def _widened(self, bits: int) -> Ints:
        """The counters, each of 2^bits ids."""
        step = 2 ** min(bits - self.bits, COUNTERS.bit_length() - 1)
        return np.pad(self.lookups.reshape(-1, step).sum(axis=1), (0, COUNTERS - COUNTERS // step))
