"""The bound of a cover by cases: a table has one way, a sharding type and a kernel on trainers or on servers, and is in some number of
pieces; the class relaxation mixes them.

A case says of some tables that they have a way, or have another one; that they are in at most so many pieces, or in more. The case with
the lowest bound is split in two, on the table whose mix weighs most, so what is lowest in the end holds for every placement.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from emplace.solver.budget import BOUND_PRECISION, BOUND_ROUNDING
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.model.cover import Cover
from emplace.solver.model.problem import Bools, Floats
from emplace.solver.relaxation.aggregate import aggregate
from emplace.solver.relaxation.bound import Bounder, bounder_of
from emplace.solver.relaxation.mixes import heaviest_mix_of_ways
from emplace.solver.relaxation.packing_cuts import PACKING_ROUNDS
from emplace.solver.relaxation.region import Region

LEAST_SHARE = 1e-9
"""Less of a table than this is none; a case without placements takes nothing."""
MOST_CASES, MOST_OPTIONS_OF_CASES = 16, 80_000
"""Cases that are bounded, and the options that all of them may have together."""


@dataclass(frozen=True, order=True)
class BoundedCase:
    """Some placements of a cover; what is in none of a list of cases is no placement."""

    bound_us: float
    number: int
    """The earlier one comes first where bounds are equal."""
    allowed: Bools
    """[O]"""
    taken: Floats
    """[O] the share of each option in the relaxation."""
    bounder: Bounder | None
    """That may raise the bound further; None once it has."""


def cases_of(cover: Cover, clock: Clock = ENDLESS, enough_us: float = inf, known: Bounder | None = None) -> list[BoundedCase]:
    """As many cases as the cover's options allow, until the lowest bound, which comes first, is enough; none where they allow none.

    `known` is a bounder of the cover. Only the lowest case is raised as far as can be: most never are the lowest. Packing cuts make each
    case take half as long again, so they come in where they raise the lowest of the cases without them.
    """
    most = min(MOST_CASES, MOST_OPTIONS_OF_CASES // max(cover.num_options, 1))
    if most < 3:
        return []
    found = _searched(_Cases(cover, clock, 0, known), most, enough_us)
    if found[0].bound_us >= enough_us or clock.is_over:
        return found
    packing = _Cases(cover, clock, PACKING_ROUNDS)
    if packing.raises(found[0]):
        found = max(found, _searched(packing, most, enough_us), key=lambda cases: cases[0].bound_us)
    return found


def _searched(search: _Cases, most: int, enough_us: float) -> list[BoundedCase]:
    heap = [search.all()]
    while heap[0].bound_us < enough_us and not search.clock.is_over:
        if heap[0].bounder is not None:
            heapq.heapreplace(heap, search.raised(heap[0], heap[0].bounder))
        elif search.bounded + 2 <= most and (halves := search.split(heap[0])) is not None:
            heapq.heapreplace(heap, halves[0])
            heapq.heappush(heap, halves[1])
        else:
            break
    return sorted(heap)


class _Cases:
    def __init__(self, cover: Cover, clock: Clock, packing_rounds: int, known: Bounder | None = None) -> None:
        """`known` is the bounder of the whole cover, without packing cuts."""
        self.clock, self._known = clock, known
        self._cover, self._packing_rounds = cover, packing_rounds
        rows = aggregate(cover)
        self._time_us = rows.coefficient[:, rows.stage >= 0].sum(axis=1)
        self.bounded = 0

    def all(self) -> BoundedCase:
        """The case that says nothing."""
        return self._begun(0.0, np.ones(self._cover.num_options, dtype=bool), self._known)

    def raises(self, case: BoundedCase) -> bool:
        """Whether the bound of a case is higher here than it was found elsewhere, to speak of."""
        return self._bounder(case.allowed).bound(case.bound_us).value_us > case.bound_us * (1 + BOUND_PRECISION)

    def raised(self, case: BoundedCase, bounder: Bounder) -> BoundedCase:
        """The case with the bound that its bounder finds."""
        found = bounder.bound(case.bound_us)
        return replace(case, bound_us=max(found.value_us, case.bound_us), taken=_taken(case.allowed, found.near), bounder=None)

    def split(self, case: BoundedCase) -> tuple[BoundedCase, BoundedCase] | None:
        """On the way that most of a table has; where ways are hardly mixed, on the number of its pieces. None where no mix weighs anything
        to speak of."""
        for table, chosen, weight_us in (self._heaviest_mix_of_ways(case.taken), self._heaviest_mix_of_pieces(case.taken)):
            if weight_us > BOUND_PRECISION * case.bound_us:
                here = self._cover.option_table == table
                one, other = case.allowed & (~here | chosen), case.allowed & ~(here & chosen)
                return self._begun(case.bound_us, one), self._begun(case.bound_us, other)
        return None

    def _heaviest_mix_of_ways(self, taken: Floats) -> tuple[int, Bools, float]:
        """(table, the options [O] of the way that most of it has, microseconds of all that has another)."""
        way = np.maximum(self._cover.way, 0)
        mixed = heaviest_mix_of_ways(self._cover.option_table, way, taken, self._time_us)
        return mixed.table, way == mixed.way, mixed.others_us

    def _heaviest_mix_of_pieces(self, taken: Floats) -> tuple[int, Bools, float]:
        """(table, the options [O] of no more pieces than it has in the mean, microseconds of all that has more, or fewer if that is less)."""
        table, pieces = self._cover.option_table, self._cover.pieces
        mean = self._by_table(taken * pieces) / np.maximum(self._by_table(taken), LEAST_SHARE)
        is_few = pieces <= mean[table] * (1 + BOUND_ROUNDING)
        few_us, many_us = (self._by_table(np.where(these, taken * self._time_us, 0.0)) for these in (is_few, ~is_few))
        mixed_us = np.minimum(few_us, many_us)
        heaviest = int(mixed_us.argmax())
        return heaviest, is_few, float(mixed_us[heaviest])

    def _by_table(self, values: Floats) -> Floats:
        """[T] sums over the options ([O]) of tables."""
        return np.bincount(self._cover.option_table, weights=values, minlength=self._cover.num_tables).astype(np.float64)

    def _begun(self, least_us: float, allowed: Bools, known: Bounder | None = None) -> BoundedCase:
        """With the bound of the class relaxation, or what is known of the case that it is a part of."""
        self.bounded += 1
        bounder = known or self._bounder(allowed)
        bound_us = max(bounder.fixed_us + bounder.root.relaxation.bound, least_us)
        return BoundedCase(bound_us, self.bounded, allowed, _taken(allowed, bounder.root), bounder)

    def _bounder(self, allowed: Bools) -> Bounder:
        return bounder_of(self._cover.with_cover_options(allowed), self.clock, packing_rounds=self._packing_rounds)


def _taken(allowed: Bools, region: Region) -> Floats:
    """[O] what the relaxation of some options ([O]) takes, if there is a placement."""
    taken = np.zeros(len(allowed))
    if region.relaxation.feasible:
        taken[allowed] = region.part.spread(region.relaxation.x, 0.0, 1.0)
    return taken
