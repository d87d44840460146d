"""Where a solve stands, told to whoever asked, and whether it is to stop: one monitor for the whole, a view of it for each part.

A part is to stop when someone asks, when its share of the time limit is over, or when what it knows answers what was asked.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from emplace.solver.clock import ENDLESS, Clock, Now
from emplace.solver.result import Limit, gap_of


@dataclass(frozen=True)
class Progress:
    """Where a solve stands. `incumbent_us` and `gap` are None while no solution is known."""

    elapsed_s: float
    incumbent_us: float | None
    bound_us: float
    gap: float | None
    phase: str


ReportProgress = Callable[[Progress], None]
ShouldStop = Callable[[], bool]


class _Listener:
    """The far end of every view. Incumbents never rise and bounds never fall, whichever thread tells of them."""

    def __init__(self, report: ReportProgress | None, should_stop: ShouldStop | None, now: Now) -> None:
        self.report, self.should_stop, self._now = report, should_stop, now
        self._started = now()
        self._incumbent_us, self._bound_us = math.inf, 0.0
        self._lock = threading.Lock()

    def tell(self, incumbent_us: float, bound_us: float, phase: str) -> None:
        """Report where the whole stands, given what one part now knows."""
        if self.report is None:
            return
        with self._lock:
            self._incumbent_us, self._bound_us = min(self._incumbent_us, incumbent_us), max(self._bound_us, bound_us)
            if math.isinf(self._bound_us):
                return  # nothing fits: that is the answer, and no number
            elapsed_s, known = self._now() - self._started, math.isfinite(self._incumbent_us)
            best = (self._incumbent_us, gap_of(self._incumbent_us, self._bound_us)) if known else (None, None)
            self.report(Progress(elapsed_s, best[0], self._bound_us, best[1], phase))


@dataclass(frozen=True)
class Monitor:
    """A view of the solve from one of its parts: what the part knows is turned into what then holds for the whole."""

    listener: _Listener = field(default_factory=lambda: _Listener(None, None, ENDLESS.now))
    clock: Clock = ENDLESS
    """Ends with the part's share of the time limit; never, where there is none."""
    least_bound_us: float = 0.0
    """A bound on the part's solutions that was known before it began."""
    others_bound_us: float = math.inf
    """A bound on all solutions that are not the part's."""
    others_best_us: float = math.inf
    """The best of all other solutions known."""
    unpaid_us: float = 0.0
    """The most that a solution of the part costs beside what the part knows."""
    has_incumbents: bool = True
    """Whether the part's solutions are solutions of the whole."""
    phase: str = ""
    """Stands before what the part calls its phase."""
    outer: Monitor | None = None
    also_stops: ShouldStop | None = None
    """Ends the part alone."""
    target_us: float | None = None
    """A solution of the whole that takes at most so long is as good as any, and where there is none no solution is wanted. Infinity
    where any solution will do, None where the best is wanted."""
    floor_us: float = 0.0
    """No solution of the whole takes less, whatever its parts know: one of which they know less is as good as any."""

    @classmethod
    def of(cls, report: ReportProgress | None = None, should_stop: ShouldStop | None = None, clock: Clock = ENDLESS) -> Monitor:
        """A monitor of a whole solve: `report` is told where it stands, `should_stop` is asked whether to end it."""
        return cls(_Listener(report, should_stop, clock.now), clock)

    def part(
        self,
        *,
        least_bound_us: float = 0.0,
        others_bound_us: float = math.inf,
        others_best_us: float = math.inf,
        unpaid_us: float = 0.0,
        has_incumbents: bool = True,
        phase: str = "",
    ) -> Monitor:
        """A monitor for a part of what this one watches."""
        return Monitor(self.listener, self.clock, least_bound_us, others_bound_us, others_best_us, unpaid_us, has_incumbents, phase, self)

    def within(self, seconds: float) -> Monitor:
        """This monitor, stopped also in so many seconds from now."""
        return replace(self, clock=self.clock.within(seconds))

    def sharing(self, share: float) -> Monitor:
        """This monitor, stopped also when so much of the time that is left is over."""
        return self.within(share * self.clock.left_s)

    def until(self, settled: ShouldStop) -> Monitor:
        """This monitor, stopped also once `settled` says so, and not by what an earlier `until` waits for."""
        return replace(self, also_stops=settled)

    def wanting(self, target_us: float | None) -> Monitor:
        """This monitor of a whole solve, which then ends with the first solution that takes at most so long, or the proof that none does."""
        return replace(self, target_us=target_us)

    def above(self, floor_us: float) -> Monitor:
        """This monitor of a whole solve, which also ends with the first solution that its parts know to take at most so long: none takes less."""
        return replace(self, floor_us=floor_us)

    def silent(self) -> Monitor:
        """One that tells nothing and stops with this one."""
        return Monitor(_Listener(None, self.interrupted, self.clock.now), self.clock)

    def of_another(self, phase: str) -> Monitor:
        """One of another solve, whose progress is reported where this one's is, with `phase` before its own; it stops with this one."""
        report = self.listener.report
        told = None if report is None else lambda progress: report(replace(progress, phase=phase + progress.phase))
        return Monitor(_Listener(told, self.interrupted, self.clock.now), self.clock)

    def tell(self, objective_us: float, bound_us: float, phase: str) -> None:
        """Say what a part of the solve knows; an objective of infinity where it has no solution."""
        if self.listener.report is None:
            return
        incumbent_us = min(objective_us + self.unpaid_us, self.others_best_us) if self.has_incumbents else math.inf
        bound_us = min(max(bound_us, self.least_bound_us), self.others_bound_us)
        incumbent_us, bound_us = max(incumbent_us, self.floor_us), max(bound_us, self.floor_us)
        (self.outer or self.listener).tell(incumbent_us, bound_us, self.phase + phase)

    def interrupted(self) -> bool:
        """Whether someone asked to stop."""
        return any(stop() for stop in (self.also_stops, self.listener.should_stop) if stop is not None)

    def stopped(self) -> bool:
        """Whether to go no further: someone asked, or the time is over."""
        return self.clock.is_over or self.interrupted()

    @property
    def enough_us(self) -> float:
        """A solution of the part that takes at most so long ends the whole; none where it is not above 0."""
        if not self.has_incumbents:
            return -math.inf
        if self.outer is None:
            return self.floor_us if self.target_us is None else max(self.target_us, self.floor_us)
        above_us = self.outer.enough_us
        return above_us if above_us == math.inf else above_us - self.unpaid_us

    @property
    def useless_us(self) -> float:
        """Solutions of the whole that take so long or longer are not wanted."""
        if self.outer is not None:
            return self.outer.useless_us
        return math.inf if self.target_us is None else math.nextafter(self.target_us, math.inf)

    @property
    def has_target(self) -> bool:
        """Whether the whole may end before its best solution is known."""
        return self.target_us is not None if self.outer is None else self.outer.has_target

    def is_answered(self, objective_us: float, bound_us: float) -> bool:
        """Whether what a part knows ends the whole: its solution is enough (infinity: it has none), or its bound proves that none is."""
        return (math.isfinite(objective_us) and objective_us <= self.enough_us) or self._rules_out(bound_us)

    def _rules_out(self, bound_us: float) -> bool:
        bound_us = min(max(bound_us, self.least_bound_us), self.others_bound_us)
        return self.outer._rules_out(bound_us) if self.outer is not None else bound_us >= self.useless_us and math.isfinite(self.useless_us)

    @property
    def limit(self) -> Limit:
        """What a part that goes no further was stopped by: someone, or its share of the limits."""
        return Limit.INTERRUPTED if self.interrupted() else Limit.WORK
