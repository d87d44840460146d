"""Progress of one part of a solve as progress of the whole: the lowest of all bounds, the best of all plans."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from emplace.solver.result import Progress, ReportProgress


@dataclass(frozen=True)
class Relay:
    """Passes on what a part reports. Its bound holds for its own plans, and its plans may cost more than it knows."""

    report: ReportProgress
    bound_us: float = 0.0
    """On the plans of the part, known before it began."""
    others_us: float = math.inf
    """A bound on all other plans."""
    best_us: float = math.inf
    """What the best of all other plans costs."""
    unpaid_us: float = 0.0
    """The most that a plan of the part costs beside what the part knows."""
    phase: str = ""
    """Set before the part's."""

    def __call__(self, progress: Progress) -> None:
        bound = min(max(progress.bound_us, self.bound_us), self.others_us)
        here = math.inf if progress.incumbent_us is None else progress.incumbent_us + self.unpaid_us
        self.report(_progress(progress.elapsed_s, min(here, self.best_us), bound, self.phase + progress.phase))


class Whole:
    """The outermost: time counts from its making, plans get no worse and bounds no lower."""

    def __init__(self, report: ReportProgress) -> None:
        self._report, self._started = report, time.perf_counter()
        self._best_us, self._bound_us = math.inf, 0.0

    def __call__(self, progress: Progress) -> None:
        self._bound_us = max(self._bound_us, progress.bound_us)
        if progress.incumbent_us is not None:
            self._best_us = min(self._best_us, progress.incumbent_us)
        self._report(_progress(time.perf_counter() - self._started, self._best_us, self._bound_us, progress.phase))


def _progress(elapsed_s: float, best_us: float, bound_us: float, phase: str) -> Progress:
    known = math.isfinite(best_us)
    gap = max(0.0, 1.0 - bound_us / best_us) if known else None
    return Progress(elapsed_s, best_us if known else None, bound_us, gap, phase)
