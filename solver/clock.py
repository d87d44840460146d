"""The clock of a solve: when it has to be done, whatever the machine does besides."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

Now = Callable[[], float]
"""Seconds since some moment."""


@dataclass(frozen=True)
class Clock:
    """One that never ends unless it is told to."""

    now: Now = time.perf_counter
    ends: float = math.inf
    """In the seconds of `now`."""

    @property
    def is_set(self) -> bool:
        """Whether it ends at all."""
        return self.ends < math.inf

    @property
    def left_s(self) -> float:
        """Seconds until it ends, 0 from then on; infinity where it never does."""
        return max(self.ends - self.now(), 0.0) if self.is_set else math.inf

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.is_set and self.now() >= self.ends

    def within(self, seconds: float) -> Clock:
        """One that ends in so many seconds from now, or with this one where that is sooner."""
        return replace(self, ends=min(self.ends, self.now() + seconds))


ENDLESS = Clock()
