"""Where searches start: one option of each table that a relaxation leans to, and how long its stages last.

What a search finds depends on how the stages share the step where it starts: no small move shortens one stage by lengthening another.
So searches start from several such balances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.local_search.lane import Start
from emplace.solver.model.indexing import or_all
from emplace.solver.model.problem import Bools, Floats, Ints, Problem
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.relaxation.column_generation import relax
from emplace.solver.relaxation.region import Region

LONG_AT_FIRST = 0.002
"""With several stages, options whose longest units would make the stages last longer than they are meant to by more than this share of
the bound, all other tables aside, are not proposed where a table has others."""
LEAST_US = 1e-6
"""Times are not told apart below: where nothing takes time, a target is one still."""
MEMORY_KEPT_FREE = 0.02
"""Share of memory that the relaxation leaves empty when it proposes the first options, if it can: packing needs room."""
BOXES_KEPT_FREE, STEPPED_KEPT_FREE = 0.003, 0.01
"""Likewise of each stage, in starts from boxes, and where one lasts whole steps: few are filled."""
NEAR, LESS_NEAR = 0.005, 0.01
"""Where a stage lasts whole steps: how far above the bound a case is at most that searches start from, as a share of it; and how far where
no nearer one has a step more."""
LIKE_UNSTEPPED = (0.75, 0.0, 0.5, 1.0, 0.25)
"""In starts where a stage lasts whole steps, the others are shorter than without. How much of that they are given back."""


def first_start(problem: Problem, bounder: Bounder, bound: Bound, clock: Clock = ENDLESS) -> Start:
    """From what is near the class relaxation."""
    return _start_of(problem, bounder, bound, bound.near, 0.0, clock)


def other_starts(problem: Problem, bounder: Bounder, bound: Bound, first: Start, clock: Clock) -> Iterator[Start]:
    """From boxes of stage lengths, and where a stage lasts whole steps."""
    shares = None if bound.boxes is None else bound.boxes.proposed(BOXES_KEPT_FREE, clock)
    if shares is not None:
        yield _start(bound, _most_of_each(shares, first.first), first.least_us, problem.num_devices)
    if bounder.lasts_whole_steps(bound):
        here = bounder.by(clock)
        near = _near(here, bound)
        for share in LIKE_UNSTEPPED:
            region = None if near is None else here.lasting(near, share, bound.near)
            if region is None or clock.is_over:
                break  # its linear program is not solved
            yield _start_of(problem, bounder, bound, region, STEPPED_KEPT_FREE, clock)


def _near(bounder: Bounder, bound: Bound) -> Region | None:
    """Placements near the bound, with one whole step more if there are such; None where there are none at all."""
    value, higher = (bound.value_us * (1 + share) - bound.fixed_us for share in (NEAR, LESS_NEAR))
    near = bounder.below(bound.root, value)
    if near is None:
        return None
    longer = bounder.with_a_step_more(bound, near, value)
    if longer is None and (less_near := bounder.below(bound.root, higher)) is not None:
        longer = bounder.with_a_step_more(bound, less_near, higher)
    return longer or next(iter(bounder.cases_below(bound, near, value)), None)


def shorter_starts(problem: Problem, bounder: Bounder, bound: Bound, clock: Clock) -> Iterator[Start]:
    """Where a stage of whole steps lasts as many as at the root, and fewer: others last longer for it."""
    for region in bounder.by(clock).with_fewer_steps(bound):
        yield _start_of(problem, bounder, bound, region, 0.0, clock)


def longest_excess_us(problem: Problem, bounder: Bounder, least_us: Floats) -> Floats:
    """[O] by how much an option's longest units exceed `least_us` ([K], base included), all stages together; 0 with one stage."""
    if problem.num_stages == 1:
        return np.zeros(problem.num_options)
    longest_us = bounder.cuts.largest[:, :-1] + problem.stage_base_us
    return np.asarray(np.maximum(longest_us - least_us, 0.0).sum(axis=1))


def _start_of(problem: Problem, bounder: Bounder, bound: Bound, near: Region, free: float, clock: Clock) -> Start:
    """What a search starts from: what the relaxation of `near` leans to, with such a share of each stage left free."""
    least_us = np.maximum(problem.stage_base_us + near.relaxation.makespan, LEAST_US)
    short = longest_excess_us(problem, bounder, least_us) <= LONG_AT_FIRST * bound.value_us
    return _start(bound, _first_options(near, short, free, clock), least_us, problem.num_devices)


def _start(bound: Bound, options: Ints, least_us: Floats, devices: int) -> Start:
    rows = bound.root.part.program.rows
    chosen = rows.coefficient[options]
    memory = chosen[:, rows.memory].sum(axis=1) * devices
    return Start(options, chosen[:, ~rows.memory].sum(axis=1), memory, bound.root.part.whole.first, least_us)


def _most_of_each(x: Floats, first: Ints) -> Ints:
    """Per table the option that has most of it."""
    return np.array([a + int(np.argmax(x[a:b])) for a, b in pairwise(first)])


def _first_options(near: Region, short: Bools, free: float, clock: Clock) -> Ints:
    """Per table the option that the relaxation leans to among `short` ones ([O]), with some memory and stages kept free, if they can be."""
    part, relaxation = near.part, near.relaxation
    program, rows = part.program, part.program.rows
    usable = or_all(program.first, program.usable & short[part.options], program.usable)
    # A settled table's bytes are off the capacity already, so the share to keep free is one of the whole.
    whole = part.whole.rows
    spare = np.where(rows.memory, rows.capacity * free, 0.0)
    spare[: len(whole.stage)] = whole.capacity * np.where(whole.memory, MEMORY_KEPT_FREE, 0.0)
    roomy = replace(program, rows=replace(rows, capacity=rows.capacity - spare, slope=rows.slope * (1.0 - free)), usable=usable)
    proposed = relax(roomy, replace(relaxation.starting_point, taken=usable & (relaxation.x > 0)), clock)
    x = part.spread((proposed if proposed.feasible and not clock.is_over else relaxation).x, 0.0, 1.0)
    return _most_of_each(x, part.whole.first)
