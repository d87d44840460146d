"""A plan in a moment: tables one after the other, each into the best place left. No bound, and no proof if it fails."""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from emplace.solver.jit import compiled
from emplace.solver.model.flat import FlatProblem, flatten, to_assignment
from emplace.solver.model.indexing import devices_covered, first_option, sum_by_option, unit_option
from emplace.solver.model.problem import Assignment, Bools, Floats, Ints, Problem

_KEPT_FREE = 0.1
"""Share of HBM that is used only for tables that find no other place: tables in system memory need their buffers there."""


class _Strategy(NamedTuple):
    """Tables in the order of `tables` [T]; the options of each as in `preferred` [O], and with no HBM kept free as in `least_hbm` [O].

    Options of a table keep its places in these, which are those of the problem.
    """

    tables: Ints
    preferred: Ints
    least_hbm: Ints
    spread_bytes: bool
    """Take the target with the most room, else the one with the least time."""


class _Free(NamedTuple):
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
        if _pack(flat, strategy, _empty(problem, flat), option, target):
            return to_assignment(problem, flat, option, target)
    return None


def _strategies(problem: Problem) -> Iterator[_Strategy]:
    """Hot tables first where time matters, large tables first where room does."""
    covered = devices_covered(problem)[unit_option(problem)]
    time_us = sum_by_option(problem, (covered[:, :, None] * problem.unit_time_us).sum(axis=(1, 2)))
    size = sum_by_option(problem, (covered * (problem.unit_hbm_bytes + problem.unit_ddr_bytes)).sum(axis=1).astype(np.float64))
    hbm = sum_by_option(problem, (covered * problem.unit_hbm_bytes).sum(axis=1).astype(np.float64))
    starts = first_option(problem)[:-1]
    least_us, least_bytes = np.minimum.reduceat(time_us, starts), np.minimum.reduceat(size, starts)
    by_time, by_size, by_hbm = (np.lexsort((each, problem.option_table)) for each in (time_us, size, hbm))
    hottest, largest = (np.argsort(-each, kind="stable") for each in (least_us / np.maximum(least_bytes, 1.0), least_bytes))
    yield _Strategy(hottest, by_time, by_hbm, spread_bytes=False)
    yield _Strategy(largest, by_time, by_hbm, spread_bytes=True)
    yield _Strategy(largest, by_size, by_hbm, spread_bytes=True)


def _empty(problem: Problem, flat: FlatProblem) -> _Free:
    return _Free(
        hbm=problem.hbm_capacity.astype(np.float64),
        kept=np.floor(problem.hbm_capacity * _KEPT_FREE),
        ddr=problem.ddr_capacity.astype(np.float64),
        time_us=np.zeros(problem.num_devices),
        unit_time_us=problem.unit_time_us.sum(axis=2),
        pool_bytes=np.zeros(len(problem.ddr_capacity)),
        taken=np.zeros(len(flat.cover_first) - 1, dtype=bool),
    )


@compiled
def _pack(flat: FlatProblem, strategy: _Strategy, room: _Free, option: Ints, target: Ints) -> bool:
    """Place every table: the preferred option that leaves some HBM free; where there is none, the one that takes the least of it.

    Writes the option of each table and the targets of its slots; False where a table found no place."""
    for table in strategy.tables:
        end = flat.candidate_first[table + 1]
        option[table] = -1
        for attempt in range(2):
            order = strategy.preferred if attempt == 0 else strategy.least_hbm
            for index in range(flat.candidate_first[table], end):
                if _place(flat, strategy.spread_bytes, room, table, order[index], 1.0 - attempt, target):
                    option[table] = order[index]
                    break
            if option[table] >= 0:
                break
        if option[table] < 0:
            return False
    return True


@compiled
def _place(flat: FlatProblem, spread_bytes: bool, room: _Free, table: int, option: int, keep: float, target: Ints) -> bool:
    """Targets for the units of an option, all booked; or False, with nothing booked."""
    slot, first = flat.slot_first[table], flat.option_first_unit[option]
    units, placed = flat.option_first_unit[option + 1] - first, 0
    while placed < units:
        best = _best_target(flat, spread_bytes, room, table, option, first + placed, keep)
        if best < 0:
            break
        _book(flat, room, first + placed, best, 1.0)
        target[slot + placed] = best
        room.taken[best] = True
        placed += 1
    for unit in range(placed):
        room.taken[target[slot + unit]] = False
        if placed < units:
            _book(flat, room, first + unit, target[slot + unit], -1.0)
    return placed == units


@compiled
def _best_target(flat: FlatProblem, spread_bytes: bool, room: _Free, table: int, option: int, unit: int, keep: float) -> int:
    """The best target that has room for a unit and leaves `keep` of the HBM that is to be kept; -1 where none has."""
    group, best, least = flat.option_group[option], -1, np.inf
    for index in range(flat.group_first[group], flat.group_first[group + 1]):
        target = flat.group_target[index]
        if not room.taken[target] and flat.allowed[table % len(flat.allowed), target] and _holds(flat, room, unit, target, keep):
            rank = _free_bytes(flat, room, target) if spread_bytes else _busy_us(flat, room, target)
            if rank < least:
                best, least = target, rank
    return best


@compiled
def _holds(flat: FlatProblem, room: _Free, unit: int, target: int, keep: float) -> bool:
    first, end = flat.cover_first[target], flat.cover_first[target + 1]
    for index in range(first, end):
        device = flat.cover_device[index]
        if room.hbm[device] - keep * room.kept[device] < flat.unit_load[unit, flat.kind[device], -1]:
            return False
    holds = True
    for index in range(first, end):
        device = flat.cover_device[index]
        pool = flat.pool[device]
        room.pool_bytes[pool] += flat.unit_ddr[unit, flat.kind[device]]
        holds &= room.pool_bytes[pool] <= room.ddr[pool]
    for index in range(first, end):
        room.pool_bytes[flat.pool[flat.cover_device[index]]] = 0.0
    return holds


@compiled
def _free_bytes(flat: FlatProblem, room: _Free, target: int) -> float:
    """All that is free on a target and in its pools, below zero: the most is the least."""
    free, first, end = 0.0, flat.cover_first[target], flat.cover_first[target + 1]
    for index in range(first, end):
        device = flat.cover_device[index]
        pool = flat.pool[device]
        free += room.hbm[device] + (room.ddr[pool] if room.pool_bytes[pool] == 0.0 else 0.0)
        room.pool_bytes[pool] = 1.0
    for index in range(first, end):
        room.pool_bytes[flat.pool[flat.cover_device[index]]] = 0.0
    return -free


@compiled
def _busy_us(flat: FlatProblem, room: _Free, target: int) -> float:
    busy = 0.0
    for index in range(flat.cover_first[target], flat.cover_first[target + 1]):
        busy = max(busy, room.time_us[flat.cover_device[index]])
    return busy


@compiled
def _book(flat: FlatProblem, room: _Free, unit: int, target: int, sign: float) -> None:
    for index in range(flat.cover_first[target], flat.cover_first[target + 1]):
        device = flat.cover_device[index]
        kind = flat.kind[device]
        room.hbm[device] -= sign * flat.unit_load[unit, kind, -1]
        room.ddr[flat.pool[device]] -= sign * flat.unit_ddr[unit, kind]
        room.time_us[device] += sign * room.unit_time_us[unit, kind]
