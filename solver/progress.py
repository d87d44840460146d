"""Passes the progress of a solve on, whichever part of it reports, and asks whether to stop."""

from __future__ import annotations

import math
import threading
import time

from emplace.solver.result import Progress, ReportProgress, ShouldStop, gap_of


class Watch:
    """Incumbents fall and bounds rise, also where threads report that do not know of each other's."""

    def __init__(self, report: ReportProgress | None, should_stop: ShouldStop | None) -> None:
        self._report, self.should_stop = report, should_stop
        self._started = time.perf_counter()
        self._objective_us, self._bound_us = math.inf, -math.inf
        self._lock = threading.Lock()

    def report(self, objective_us: float, bound_us: float, phase: str) -> None:
        """What a part of the solve knows; an objective of infinity where it has no plan."""
        if self._report is None:
            return
        with self._lock:
            self._objective_us, self._bound_us = min(self._objective_us, objective_us), max(self._bound_us, bound_us)
            elapsed_s, known = time.perf_counter() - self._started, math.isfinite(self._objective_us)
            incumbent_us, gap = (self._objective_us, gap_of(self._objective_us, self._bound_us)) if known else (None, None)
            self._report(Progress(elapsed_s, incumbent_us, self._bound_us, gap, phase))

    def pass_on(self, progress: Progress) -> None:
        """What a part reports by itself."""
        self.report(math.inf if progress.incumbent_us is None else progress.incumbent_us, progress.bound_us, progress.phase)

    def stopped(self) -> bool:
        """Whether someone asked to stop."""
        return self.should_stop is not None and self.should_stop()
