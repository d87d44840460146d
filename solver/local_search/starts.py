"""What searches of a problem start from: options that a relaxation leans to, and how long it lets each stage last.

Where single devices' loads come in whole steps of a stage, the stage lasts a whole number of them, and a relaxation is about as good at
one number as at the next: what it saves there it has in another stage. Which one packs best it can't say, so searches start from several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice, pairwise

import numpy as np

from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.local_search.lane import Start
from emplace.solver.model.indexing import or_all
from emplace.solver.model.problem import Bools, Floats, Ints, Problem
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.relaxation.column_generation import relax
from emplace.solver.relaxation.granular_stages import GranularStages
from emplace.solver.relaxation.program import Relaxation

LEAST_US = 1e-6
"""Times are not told apart below: where nothing takes time, a target is one still."""
LONG, LONG_AT_FIRST, LONG_OF_ROOM = 0.02, 0.002, 0.5
"""With several stages, options whose longest units would make the stages last much more than they are meant to, all other tables
aside, are left out where a table has others, or not proposed at first: more than these shares of the bound, or where a target is
far above it, than this share of the room between. They cost the relaxation nothing, and no small move gets rid of them. With one
stage the bound's own rule on long units says as much as is certain."""
MEMORY_KEPT_FREE = 0.02
"""Share of memory that the relaxation leaves empty when it proposes the first options, if it can: packing needs room."""
NEARLY_BEST = 0.15
"""Whole steps of a stage are searched from where the relaxation is worse by at most this share of the bound over the tables of a device:
the fewer these are, the further plans end from what it says."""
MOST_EITHER_WAY = 6
"""Numbers of steps that are tried above the relaxation's own, and as many below."""


def starts_of(problem: Problem, bounder: Bounder, bound: Bound, clock: Clock = ENDLESS) -> list[Start]:
    """What searches of a problem start from: what the relaxation leans to, and whole steps of the stage that loses most by them, the best
    first."""
    own = start_of(problem, bounder, bound, clock)
    levels = sorted(_whole_steps(problem, bound, clock), key=lambda relaxed: relaxed.bound)
    return [own, *(replace(own, least_us=_least_us(problem, relaxed)) for relaxed in levels)]


def _whole_steps(problem: Problem, bound: Bound, clock: Clock) -> Iterator[Relaxation]:
    """Relaxations at so many steps, fewer and more, while they are not much worse than the best."""
    if problem.num_stages == 1:
        return
    steps, root = GranularStages(problem), bound.root
    level = steps.level(root.part, bound.near.relaxation.makespan)
    if level is None:
        return
    best_us, room_us = np.inf, NEARLY_BEST * bound.value_us * problem.num_devices / problem.num_tables
    for numbers in (count(level.whole + 1), count(level.whole, -1)):
        for whole in islice(numbers, MOST_EITHER_WAY):
            if whole < 1:
                break
            relaxed = relax(steps.at(root.part, replace(level, whole=whole)), root.relaxation.x > 0, clock)
            best_us = min(best_us, relaxed.bound)
            if clock.is_over or not relaxed.feasible or relaxed.bound > best_us + room_us:
                break
            yield relaxed


def longest_excess_us(problem: Problem, bounder: Bounder, least_us: Floats) -> Floats:
    """[O] by how much an option's longest units exceed `least_us` ([K], base included), all stages together; 0 with one stage."""
    if problem.num_stages == 1:
        return np.zeros(problem.num_options)
    longest_us = bounder.cuts.largest[:, :-1] + problem.stage_base_us
    return np.asarray(np.maximum(longest_us - least_us, 0.0).sum(axis=1))


def start_of(problem: Problem, bounder: Bounder, bound: Bound, clock: Clock = ENDLESS) -> Start:
    """What every search of a problem starts from."""
    least_us = _least_us(problem, bound.near.relaxation)
    options = _first_options(bound, longest_excess_us(problem, bounder, least_us) <= LONG_AT_FIRST * bound.value_us, clock)
    rows = bound.root.part.program.rows
    chosen = rows.coefficient[options]
    memory = chosen[:, rows.memory].sum(axis=1) * problem.num_devices
    return Start(options, chosen[:, ~rows.memory].sum(axis=1), memory, bound.root.part.whole.first, least_us)


def _least_us(problem: Problem, relaxed: Relaxation) -> Floats:
    """[K] the makespans of a relaxation, base included."""
    return np.maximum(problem.stage_base_us + relaxed.makespan, LEAST_US)


def _first_options(bound: Bound, short: Bools, clock: Clock) -> Ints:
    """Per table the option that the relaxation leans to among `short` ones ([O]), with some memory kept free, if it can be."""
    part, relaxation = bound.near.part, bound.near.relaxation
    program, rows = part.program, part.program.rows
    usable = or_all(program.first, program.usable & short[part.options], program.usable)
    # A settled table's bytes are off the capacity already, so the share to keep free is one of the whole.
    spare = part.whole.rows.capacity * np.where(rows.memory, MEMORY_KEPT_FREE, 0.0)
    roomy = replace(program, rows=replace(rows, capacity=rows.capacity - spare), usable=usable)
    proposed = relax(roomy, usable & (relaxation.x > 0), clock)
    x = part.spread((proposed if proposed.feasible and not clock.is_over else relaxation).x, 0.0, 1.0)
    return np.array([a + int(np.argmax(x[a:b])) for a, b in pairwise(part.whole.first)])
