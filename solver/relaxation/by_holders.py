"""The bound of a cover by how many trainers hold a table.

The class relaxation spreads a table evenly over all trainers. One that costs much in each piece is on few of them, which are full before
the others are.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from math import inf

import numpy as np

from emplace.solver.budget import BOUND_PRECISION
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.model.cover import Cover
from emplace.solver.model.holders import HolderPricer, in_own_pieces, not_partly_held
from emplace.solver.model.problem import Floats
from emplace.solver.relaxation.aggregate import aggregate
from emplace.solver.relaxation.bound import bounder_of
from emplace.solver.relaxation.by_cases import MOST_OPTIONS_OF_CASES, BoundedCase

LEAST_PART = 0.25
"""A share of the time of all tables: one that takes less of it is not worth the cases."""
PRICING_SECONDS = 1.0
"""What must be left of a limit of time: the clock doesn't end the pricing of a cover."""


def raised_by_holders(
    cases: list[BoundedCase], cover: Cover, pricer: HolderPricer, useless_us: float = 0.0, enough_us: float = inf, clock: Clock = ENDLESS
) -> list[BoundedCase]:
    """The cases of a cover with the bound by holders of its largest table, where that is higher. Bounds up to `useless_us` are not wanted,
    nor higher ones than `enough_us`."""
    if not cases or cases[0].bound_us >= enough_us or clock.left_s < PRICING_SECONDS:
        return cases
    table = _largest_table(cover, cases[0].taken)
    if table is None or int(cover.device_is_trainer.sum()) * cover.num_options > MOST_OPTIONS_OF_CASES:
        return cases
    above_us = max(cases[0].bound_us, useless_us) * (1 + BOUND_PRECISION)
    bound_us = bound_by_holders(cover, pricer, table, above_us, enough_us, clock)
    return [replace(case, bound_us=max(case.bound_us, bound_us)) for case in cases]


def bound_by_holders(
    cover: Cover, pricer: HolderPricer, table: int, above_us: float = 0.0, enough_us: float = inf, clock: Clock = ENDLESS
) -> float:
    """A bound on all placements of a cover; 0 where the table's holders prove none above `above_us`."""
    elsewhere, least_us = not_partly_held(cover, table), inf
    if (elsewhere.option_table == table).any():
        least_us = bounder_of(elsewhere, clock).bound().value_us
    if least_us <= above_us:
        return 0.0
    held = pricer.held(table).among(cover)
    bounders = {number: bounder_of(held.held_by(number), clock) for number in held.numbers.tolist()}
    relaxed = [(bounder.relaxed_us, number) for number, bounder in bounders.items()]
    heapq.heapify(relaxed)
    while relaxed and above_us < least_us and relaxed[0][0] < min(least_us, enough_us) and not clock.is_over:
        relaxed_us, number = heapq.heappop(relaxed)
        least_us = min(least_us, max(relaxed_us, bounders[number].bound().value_us))
    return min([least_us, *(relaxed_us for relaxed_us, _ in relaxed)])


def _largest_table(cover: Cover, taken: Floats) -> int | None:
    """The table that takes most time in pieces on trainers, by the share of each option ([O]); None where that is little."""
    rows = aggregate(cover)
    time_us = rows.coefficient[:, rows.stage >= 0].sum(axis=1) * taken
    by_table = np.bincount(cover.option_table, weights=np.where(in_own_pieces(cover), time_us, 0.0), minlength=cover.num_tables)
    largest = int(by_table.argmax())
    return largest if by_table[largest] > LEAST_PART * time_us.sum() else None
