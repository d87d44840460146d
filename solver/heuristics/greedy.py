"""A plan in a moment: tables one after the other, each into the best place left. No bound, and no proof if it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from emplace.solver.model.flat import FlatProblem, flatten, to_assignment
from emplace.solver.model.indexing import devices_covered, first_option, sum_by_option, unit_option
from emplace.solver.model.problem import Assignment, Bools, Floats, Ints, Problem
from emplace.solver.native import place_all

_KEPT_FREE = 0.1
"""Share of HBM that is used only for tables that find no other place: tables in system memory need their buffers there."""


class Strategy(NamedTuple):
    """Tables in the order of `tables` [T]; the options of each as in `preferred` [O], and with no HBM kept free as in `least_hbm` [O].

    Options of a table keep its places in these, which are those of the problem.
    """

    tables: Ints
    preferred: Ints
    least_hbm: Ints
    spread_bytes: bool
    """Take the target with the most room, else the one with the least time."""


class Room(NamedTuple):
    """What is left on devices and what is on them, and space to work on."""

    hbm: Floats
    """[D] bytes"""
    kept: Floats
    """[D] of them that a preferred option must leave."""
    ddr: Floats
    """[P] bytes"""
    time_us: Floats
    """[D]"""
    unit_time_us: Floats
    """[U, G]"""
    pool_bytes: Floats
    """[P]"""
    taken: Bools
    """[targets]"""


def pack(problem: Problem) -> Assignment | None:
    """A greedy placement, by the first strategy that places every table; None when each leaves one without a place."""
    flat = flatten(problem)
    option, target = np.full(problem.num_tables, -1), np.full(len(flat.slot_table), -1)
    for strategy in _strategies(problem):
        if place_all(flat, strategy, _empty(problem, flat), option, target):
            return to_assignment(problem, flat, option, target)
    return None


def _strategies(problem: Problem) -> Iterator[Strategy]:
    """Hot tables first where time matters, large tables first where room does."""
    covered = devices_covered(problem)[unit_option(problem)]
    time_us = sum_by_option(problem, (covered[:, :, None] * problem.unit_time_us).sum(axis=(1, 2)))
    size = sum_by_option(problem, (covered * (problem.unit_hbm_bytes + problem.unit_ddr_bytes)).sum(axis=1).astype(np.float64))
    hbm = sum_by_option(problem, (covered * problem.unit_hbm_bytes).sum(axis=1).astype(np.float64))
    starts = first_option(problem)[:-1]
    least_us, least_bytes = np.minimum.reduceat(time_us, starts), np.minimum.reduceat(size, starts)
    by_time, by_size, by_hbm = (np.lexsort((each, problem.option_table)) for each in (time_us, size, hbm))
    hottest, largest = (np.argsort(-each, kind="stable") for each in (least_us / np.maximum(least_bytes, 1.0), least_bytes))
    yield Strategy(hottest, by_time, by_hbm, spread_bytes=False)
    yield Strategy(largest, by_time, by_hbm, spread_bytes=True)
    yield Strategy(largest, by_size, by_hbm, spread_bytes=True)


def _empty(problem: Problem, flat: FlatProblem) -> Room:
    return Room(
        hbm=problem.hbm_capacity.astype(np.float64),
        kept=np.floor(problem.hbm_capacity * _KEPT_FREE),
        ddr=problem.ddr_capacity.astype(np.float64),
        time_us=np.zeros(problem.num_devices),
        unit_time_us=problem.unit_time_us.sum(axis=2),
        pool_bytes=np.zeros(len(problem.ddr_capacity)),
        taken=np.zeros(len(flat.cover_first) - 1, dtype=bool),
    )
