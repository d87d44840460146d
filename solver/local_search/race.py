"""Which searches there are, and which of them goes on: where they start decides much of what they find, and soon shows.

Work is counted, so the machine decides nothing; under a limit of time, searches have shares of it, and the best one goes on until it is
over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, cycle, islice

from emplace.solver.budget import BOUND_SHARE, HEATS_SHARE, SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.local_search.lane import Start
from emplace.solver.local_search.search import FIRST_RUN, LANES, Incumbent, Search
from emplace.solver.local_search.starts import first_start, other_starts, shorter_starts
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
TRIAL = 0.25
"""Share of one search after which it shows how good a start is."""


@dataclass(frozen=True)
class Racer:
    """A search, where it starts, and its chunks."""

    start: Start
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
        if self.problem.num_stages == 1:
            return self._one_by_one(self.restarts)
        return self._from_the_best_start(self.restarts) if self.has_many_restarts else self._in_heats()

    @property
    def restarts(self) -> int:
        """How many whole searches there is work for."""
        return max(1, round(self.work / (RESTART_WORK * self.problem.num_tables)))

    @property
    def has_many_restarts(self) -> bool:
        """Whether there is work for so many that some which find nothing better say something of the next."""
        return self.restarts >= HEATS[0]

    @property
    def work(self) -> float:
        """What each lane may do in all searches."""
        return self.budget.seconds * SEARCH_WORK_PER_SECOND

    def _one_by_one(self, number: int) -> Iterator[Search]:
        share, share_s, field = 1 / number, self.monitor.clock.left_s / number, list[Racer]()
        for index, start in _entrants(self._starts(number), number):
            field.append(self._racer(start, index, number, share))
            yield from _run(field[-1:], share * self.work, self.monitor.within(share_s))
            if self._has_no_time(field[-1]):
                break
        yield from _run([_best(field)], math.inf, self.monitor)

    def _from_the_best_start(self, number: int) -> Iterator[Search]:
        """Each start is tried; the best one gets all searches that there is work for."""
        share, share_s = 1 / number, self.monitor.clock.left_s / number
        tried = list[Racer]()
        for index, start in enumerate(self._starts(number, shorter=True)):
            tried.append(self._racer(start, index, number, share, squared=index % 2 == 0))
            yield from _run(tried[-1:], TRIAL * share * self.work, self.monitor.within(TRIAL * share_s))
            if self._has_no_time(tried[0]):
                break
        best, field = _best(tried), [_best(tried)]
        if not self._has_no_time(best):
            yield from _run(field, share * self.work, self.monitor.within((1 - TRIAL) * share_s))
            for index in range(len(tried), round(number + (len(tried) - 1) * (1 - TRIAL))):
                field.append(self._racer(best.start, index, number, share, squared=index % 2 == 0))
                yield from _run(field[-1:], share * self.work, self.monitor.within(share_s))
        yield from _run([_best(field)], math.inf, self.monitor)

    def _in_heats(self) -> Iterator[Search]:
        heats = HEATS if HEATS_SHARE * LANES * self.work >= sum(HEATS) * self._enough else SHORT_HEATS
        share = HEATS_SHARE / sum(heats)
        share_s, others = share * self.monitor.clock.left_s, share * (sum(heats) - len(heats))
        starts = self._starts(heats[0] if share * LANES * self.work >= self._enough else 1)
        entrants = _entrants(starts, heats[0])
        field = [self._racer(start, index, heats[0], 1 - others, squared=index > 0, explores=False) for index, start in entrants]
        for heat, size in enumerate(heats, start=1):
            field = sorted(field, key=lambda racer: racer.objective_us)[:size]
            yield from self._heat(field, heat * share * self.work, share_s)
            if self._has_no_time(field[0]):
                break
        best = _best(field)
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

    def _starts(self, most: int, *, shorter: bool = False) -> list[Start]:
        """So many at most; with `shorter` those come first where a stage lasts fewer whole steps."""
        problem, bounder, bound, clock = self.problem, self.bounder, self.bound, self.monitor.sharing(BOUND_SHARE).clock
        first = first_start(problem, bounder, bound, clock)
        others = other_starts(problem, bounder, bound, first, clock)
        if shorter:
            others = chain(shorter_starts(problem, bounder, bound, clock), others)
        return [first, *islice(others, most - 1)]

    def _racer(self, start: Start, index: int, number: int, most: float, *, squared: bool = False, explores: bool = True) -> Racer:
        """A search of `number`, where each lane does the share `most` of the work in the end."""
        problem, balances = self.problem, self.problem.num_tables > self.problem.num_devices
        warm, seed = problem.warm_start if index == 0 else None, self.budget.seed * number + index
        search = Search(problem, self.bounder, self.bound, start, seed, warm, squared=squared and balances, explores=explores)
        end = math.inf if self.budget.by_clock else most * self.work
        return Racer(start, search, search.run(self.budget.gap, end, any_soon=self.budget.by_clock and index == 0))


def _entrants(starts: list[Start], number: int) -> Iterator[tuple[int, Start]]:
    """The first start once, and the others in turn."""
    return zip(range(number), chain(starts[:1], cycle(starts[1:] or starts)), strict=False)


def _best(field: list[Racer]) -> Racer:
    return min(field, key=lambda racer: racer.objective_us)


def _run(racers: list[Racer], work: float, here: Monitor) -> Iterator[Search]:
    """Side by side, each search after its chunks, until each has done `work` in all or they are to stop."""
    with ThreadPoolExecutor(len(racers)) as pool:
        while racers:
            found = list(pool.map(lambda racer: next(racer.chunks, None), racers))
            yield from (racer.search for racer, chunk in zip(racers, found, strict=True) if chunk is not None)
            racers = [racer for racer, chunk in zip(racers, found, strict=True) if chunk is not None and chunk.work < work]
            if here.stopped():
                break
