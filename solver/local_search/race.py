"""Which searches there are, and which of them goes on: where they start decides much of what they find, and soon shows.

Work is counted, so the machine decides nothing; under a limit of time, searches have shares of it, and the best one goes on until it is
over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count, cycle, islice

from emplace.solver.budget import BOUND_SHARE, FIRST_HEAT_SHARE, SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.local_search.search import FIRST_RUN, Incumbent, Search
from emplace.solver.local_search.starts import first_start, other_starts
from emplace.solver.model.problem import Problem
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder

RESTART_WORK = 5.5e5
"""Work per table of one search, where there is time for several: from nothing they find better plans than a long one does
(30 tables on 16 devices, 127 on 64)."""
RACERS, FEWEST_RACERS = 6, 3
"""With several stages and no time for as many to their end, so many searches race, or as few: after each heat the better half goes on."""
RUNS_OF_A_HEAT = 3
"""First runs in a heat, or in a search, from which on searches start from here and there. With less it is harder to find any placement."""


@dataclass
class Racer:
    """A search and how far it is."""

    search: Search
    steps: Iterator[Incumbent]

    def run(self, work: float, here: Monitor) -> Iterator[Search]:
        """The search after every chunk, until it has done `work` in all or is to stop."""
        for found in self.steps:
            yield self.search
            if found.work >= work or here.stopped():
                break

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
        return self._in_heats() if self.problem.num_stages > 1 and restarts < RACERS else self._one_by_one(restarts)

    @property
    def work(self) -> float:
        """What each lane may do in all searches."""
        return self.budget.seconds * SEARCH_WORK_PER_SECOND

    def _one_by_one(self, number: int) -> Iterator[Search]:
        share, leader = 1 / number, None
        share_s = share * self.monitor.clock.left_s
        for racer in self._racers(number, share, share, lambda index: index % 2 == 0):
            yield from racer.run(share * self.work, self.monitor.within(share_s))
            leader = racer if leader is None or racer.objective_us < leader.objective_us else leader
            if self._has_no_time(racer):
                break
        if leader is not None:
            yield from leader.run(math.inf, self.monitor)

    def _in_heats(self) -> Iterator[Search]:
        number = RACERS if FIRST_HEAT_SHARE * self.work >= RACERS * self._enough else FEWEST_RACERS
        share, sizes = FIRST_HEAT_SHARE / number, _heats(number)
        share_s, others = share * self.monitor.clock.left_s, share * (sum(sizes) - len(sizes))
        field = list(self._racers(number, share, 1 - others, lambda index: index > 0))
        for heat, size in enumerate(sizes, start=1):
            field = sorted(field, key=lambda racer: racer.objective_us)[:size]
            for racer in field:
                yield from racer.run(heat * share * self.work, self.monitor.within(share_s))
                if self._has_no_time(field[0]):
                    break
        yield from min(field, key=lambda racer: racer.objective_us).run(math.inf, self.monitor)

    @property
    def _enough(self) -> float:
        """Work of a search from which on it may start elsewhere."""
        return RUNS_OF_A_HEAT * FIRST_RUN * self.problem.num_tables

    def _has_no_time(self, racer: Racer) -> bool:
        """Whether a race would be over before any racer has a plan."""
        return self.budget.by_clock and racer.search.best.assignment is None

    def _racers(self, number: int, first: float, most: float, squared: Callable[[int], bool]) -> Iterator[Racer]:
        """So many searches, each of which does the share `first` of the work, and `most` of it at the most."""
        problem, bound, clock = self.problem, self.bound, self.monitor.sharing(BOUND_SHARE).clock
        starts = [first_start(problem, self.bounder, bound, clock)]
        if first * self.work >= self._enough:
            starts += islice(other_starts(problem, self.bounder, bound, starts[0], clock), number - 1)
        balances = problem.num_stages > 1 and problem.num_tables > problem.num_devices
        for index, start in zip(range(number), chain(starts[:1], cycle(starts[1:] or starts)), strict=False):
            warm = problem.warm_start if index == 0 else None
            seed = self.budget.seed * number + index
            search = Search(problem, self.bounder, bound, start, seed, warm, squared=balances and squared(index))
            end = math.inf if self.budget.by_clock else most * self.work
            yield Racer(search, search.run(self.budget.gap, end, any_soon=self.budget.by_clock and index == 0))


def _heats(number: int) -> list[int]:
    """How many race in each heat, until there is one."""
    return [number, *_heats((number + 1) // 2)] if number > 1 else []
