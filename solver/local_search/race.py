"""Which searches there are, and which of them goes on: where they start decides much of what they find, and soon shows.

Work is counted, so the machine decides nothing; under a limit of time, searches have shares of it, and the best one goes on until it is
over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, cycle, islice

from emplace.solver.budget import BOUND_SHARE, HEATS_SHARE, SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.local_search.search import FIRST_RUN, LANES, Incumbent, Search
from emplace.solver.local_search.starts import first_start, other_starts
from emplace.solver.model.problem import Problem
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder

RESTART_WORK = 5.5e5
"""Work per table of one search, where there is time for several: from nothing they find better plans than a long one does
(30 tables on 16 devices, 127 on 64)."""
HEATS, SHORT_HEATS = (6, 4, 2), (4, 2)
"""How many searches race in each heat where there are several stages and no time for as many to their end, or for such heats: those that
have found the best placements go on."""
RUNS_OF_A_HEAT = 3
"""First runs in a heat, or in a search, from which on searches start from here and there. With less it is harder to find any placement."""


@dataclass(frozen=True)
class Racer:
    """A search and its chunks."""

    search: Search
    chunks: Iterator[Incumbent]

    @property
    def objective_us(self) -> float:
        """Infinity where it has found nothing yet."""
        return self.search.best.objective_us


@dataclass(frozen=True)
class Race:
    """Searches on one problem, with the work of the budget or the time of the monitor to share."""

    problem: Problem
    bounder: Bounder
    bound: Bound
    budget: Budget
    monitor: Monitor

    def searches(self) -> Iterator[Search]:
        """The search that has just done a chunk; what is not shared, the best one gets besides."""
        restarts = max(1, round(self.work / (RESTART_WORK * self.problem.num_tables)))
        return self._in_heats() if self.problem.num_stages > 1 and restarts < HEATS[0] else self._one_by_one(restarts)

    @property
    def work(self) -> float:
        """What each lane may do in all searches."""
        return self.budget.seconds * SEARCH_WORK_PER_SECOND

    def _one_by_one(self, number: int) -> Iterator[Search]:
        share, best = 1 / number, None
        share_s = share * self.monitor.clock.left_s
        for racer in self._racers(number, share, share, lambda index: index % 2 == 0):
            yield from _run([racer], share * self.work, self.monitor.within(share_s))
            best = racer if best is None else min(best, racer, key=lambda each: each.objective_us)
            if self._has_no_time(racer):
                break
        if best is not None:
            yield from _run([best], math.inf, self.monitor)

    def _in_heats(self) -> Iterator[Search]:
        heats = HEATS if HEATS_SHARE * LANES * self.work >= sum(HEATS) * self._enough else SHORT_HEATS
        share = HEATS_SHARE / sum(heats)
        share_s, others = share * self.monitor.clock.left_s, share * (sum(heats) - len(heats))
        field = list(self._racers(heats[0], share * LANES, 1 - others, lambda index: index > 0, explore=False))
        for heat, size in enumerate(heats, start=1):
            field = sorted(field, key=lambda racer: racer.objective_us)[:size]
            yield from self._heat(field, heat * share * self.work, share_s)
            if self._has_no_time(field[0]):
                break
        best = min(field, key=lambda racer: racer.objective_us)
        best.search.explores = True
        yield from _run([best], math.inf, self.monitor)

    def _heat(self, field: list[Racer], work: float, share_s: float) -> Iterator[Search]:
        """Until each has done `work` in all, or had `share_s` of the time of both cores."""
        for first in range(0, len(field), LANES):
            pair = field[first : first + LANES]
            yield from _run(pair, work, self.monitor.within(len(pair) * share_s))
            if self._has_no_time(field[0]):
                break

    @property
    def _enough(self) -> float:
        """Work of a lane from which on a search may start elsewhere."""
        return RUNS_OF_A_HEAT * FIRST_RUN * self.problem.num_tables

    def _has_no_time(self, racer: Racer) -> bool:
        """Whether a race would be over before any racer has a plan."""
        return self.budget.by_clock and racer.search.best.assignment is None

    def _racers(self, number: int, first: float, most: float, squared: Callable[[int], bool], *, explore: bool = True) -> Iterator[Racer]:
        """So many searches: at first a lane of each does the share `first` of the work, and in the end each does `most` of it at the most."""
        problem, bound, clock = self.problem, self.bound, self.monitor.sharing(BOUND_SHARE).clock
        starts = [first_start(problem, self.bounder, bound, clock)]
        if first * self.work >= self._enough:
            starts += islice(other_starts(problem, self.bounder, bound, starts[0], clock), number - 1)
        balances = problem.num_stages > 1 and problem.num_tables > problem.num_devices
        for index, start in zip(range(number), chain(starts[:1], cycle(starts[1:] or starts)), strict=False):
            warm = problem.warm_start if index == 0 else None
            seed = self.budget.seed * number + index
            is_squared = balances and squared(index)
            search = Search(problem, self.bounder, bound, start, seed, warm, squared=is_squared, explores=explore)
            end = math.inf if self.budget.by_clock else most * self.work
            yield Racer(search, search.run(self.budget.gap, end, any_soon=self.budget.by_clock and index == 0))


def _run(racers: list[Racer], work: float, here: Monitor) -> Iterator[Search]:
    """Side by side, each search after its chunks, until each has done `work` in all or they are to stop."""
    with ThreadPoolExecutor(len(racers)) as pool:
        while racers:
            found = list(pool.map(lambda racer: next(racer.chunks, None), racers))
            yield from (racer.search for racer, chunk in zip(racers, found, strict=True) if chunk is not None)
            racers = [racer for racer, chunk in zip(racers, found, strict=True) if chunk is not None and chunk.work < work]
            if here.stopped():
                break
