"""The bound of a cover by cases: a table has one way, a sharding type and a kernel on trainers or on servers; the class relaxation mixes them.

A case says of some tables that they have a way, or have another one. The case with the lowest bound is split in two, on the table whose
mix weighs most, so what is lowest in the end holds for every placement.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import inf

import numpy as np

from emplace.solver.budget import BOUND_PRECISION
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.model.cover import Cover
from emplace.solver.model.problem import Bools, Floats
from emplace.solver.relaxation.aggregate import aggregate
from emplace.solver.relaxation.bound import bounder_of

MOST_CASES, MOST_OPTIONS = 16, 80_000
"""Cases that are bounded, and the options that all of them may have together."""


@dataclass(frozen=True, order=True)
class Case:
    """Some placements of a cover; what is in none of a list of cases is no placement."""

    bound_us: float
    number: int
    """The earlier one comes first where bounds are equal."""
    allowed: Bools
    """[O]"""
    taken: Floats
    """[O] the share of each option in the relaxation."""


def cases_of(cover: Cover, clock: Clock = ENDLESS, enough_us: float = inf) -> list[Case]:
    """As many cases as the cover's options allow, until the lowest bound, which comes first, is enough; none where they allow none."""
    most = min(MOST_CASES, MOST_OPTIONS // max(cover.num_options, 1))
    if most < 3:
        return []
    search = _Cases(cover, clock)
    heap = [search.all()]
    while heap[0].bound_us < enough_us and search.bounded + 2 <= most and not clock.is_over:
        if (halves := search.split(heap[0])) is None:
            break
        heapq.heapreplace(heap, halves[0])
        heapq.heappush(heap, halves[1])
    return sorted(heap)


class _Cases:
    def __init__(self, cover: Cover, clock: Clock) -> None:
        self._cover, self._clock = cover, clock
        rows = aggregate(cover)
        self._time_us = rows.coefficient[:, rows.stage >= 0].sum(axis=1)
        self.bounded = 0

    def all(self) -> Case:
        """The case that says nothing."""
        return self._bounded(0.0, np.ones(self._cover.num_options, dtype=bool))

    def split(self, case: Case) -> tuple[Case, Case] | None:
        """On the way that most of a table has; None where no mix weighs anything to speak of."""
        table, way, weight_us = self._heaviest_mix(case.taken)
        if weight_us <= BOUND_PRECISION * case.bound_us:
            return None
        here = self._cover.option_table == table
        has_way = self._cover.way == way
        with_way, without = case.allowed & (~here | has_way), case.allowed & ~(here & has_way)
        return self._bounded(case.bound_us, with_way), self._bounded(case.bound_us, without)

    def _heaviest_mix(self, taken: Floats) -> tuple[int, int, float]:
        """(table, the way that most of it has, microseconds of all that has another)."""
        table, way = self._cover.option_table, np.maximum(self._cover.way, 0)
        shape = (self._cover.num_tables, int(way.max()) + 1)
        share, time_us = np.zeros(shape), np.zeros(shape)
        np.add.at(share, (table, way), taken)
        np.add.at(time_us, (table, way), taken * self._time_us)
        main = share.argmax(axis=1)
        others_us = time_us.sum(axis=1) - time_us[np.arange(len(main)), main]
        heaviest = int(others_us.argmax())
        return heaviest, int(main[heaviest]), float(others_us[heaviest])

    def _bounded(self, least_us: float, allowed: Bools) -> Case:
        self.bounded += 1
        found = bounder_of(self._cover.with_cover_options(allowed), self._clock).bound()
        taken = np.zeros(len(allowed))
        if found.feasible:
            taken[allowed] = found.near.part.spread(found.near.relaxation.x, 0.0, 1.0)
        return Case(max(found.value_us, least_us), self.bounded, allowed, taken)
