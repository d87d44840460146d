"""What the local search works on: a placement with its loads, their limits, and space to try changes in. solver/native/ has the search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emplace.solver.model.flat import FlatProblem
from emplace.solver.model.problem import Floats, Ints, Problem

SQUARED = 2e-3
"""The excess, as a share of the target, whose square counts for as much as itself."""
MOST_MEMORY_WEIGHT = 1000.0
"""The most that the weight of memory beside time grows to while it stays exceeded."""


class LoadLimits(NamedTuple):
    """Loads above these cost their excess times the weight, and its square times the other."""

    load: Floats
    """[D, L]"""
    weight: Floats
    """[L]"""
    square_weight: Floats
    """[L] of the square of the excess."""
    ddr: Floats
    """[P]"""
    ddr_weight: Floats
    """[P]"""
    memory_weight: Floats
    """[4] the least and the most that the weight of HBM may be, and that of system memory."""


class SearchState(NamedTuple):
    """A placement and its loads. Slots that sit on single devices are chained per device."""

    option: Ints
    """[T]"""
    target: Ints
    """[S] of the slots in use; -1 where a unit found no place."""
    load: Floats
    """[D, L]"""
    cost: Floats
    """[D]"""
    ddr: Floats
    """[P]"""
    ddr_cost: Floats
    """[P]"""
    head: Ints
    """[D] first slot on a device, or -1."""
    next: Ints
    """[S]"""
    previous: Ints
    """[S]"""
    slots: Ints
    """[D] slots on a device."""
    overloaded: Ints
    """[D + 1] how many devices were overloaded at the last look, then which."""
    random: NDArray[np.uint64]
    """[1] state of the random generator."""


class Journal(NamedTuple):
    """What a move in progress changed, so that it can be taken back exactly."""

    clock: Ints
    """[3] number of the move, devices touched, pools touched."""
    device: Ints
    """[D] the touched devices, in order; likewise pool."""
    device_stamp: Ints
    """[D] number of the last move that touched the device; likewise pool_stamp."""
    load: Floats
    """[D, L] as it was, likewise cost, ddr and ddr_cost."""
    cost: Floats
    pool: Ints
    pool_stamp: Ints
    ddr: Floats
    ddr_cost: Floats
    table: Ints
    """[2] tables that the move proposes to place anew; -1 ends the list."""
    option: Ints
    """[2] their options"""
    target: Ints
    """[2, W] and targets."""


class Schedule(NamedTuple):
    """A part of an annealing run, in work: devices touched."""

    done: float
    """What of the run is behind."""
    work: float
    """What is to be done now."""
    total: float
    """The whole run."""
    hot: float
    """The temperature at its start."""
    cold: float
    """And at its end."""
    move_work: float
    """What a move counts for besides the devices that it touches."""


def empty_state(problem: Problem, flat: FlatProblem, seed: int) -> SearchState:
    """Nothing placed yet: options are -1."""
    devices, slots, columns = problem.num_devices, len(flat.slot_table), problem.num_stages + 1
    load = np.zeros((devices, columns))
    load[:, :-1] = problem.stage_base_us
    return SearchState(
        option=np.full(problem.num_tables, -1),
        target=np.full(slots, -1),
        load=load,
        cost=np.zeros(devices),
        ddr=np.zeros(len(problem.ddr_capacity)),
        ddr_cost=np.zeros(len(problem.ddr_capacity)),
        head=np.full(devices, -1),
        next=np.full(slots, -1),
        previous=np.full(slots, -1),
        slots=np.zeros(devices, dtype=np.int64),
        overloaded=np.zeros(devices + 1, dtype=np.int64),
        random=np.array([np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] | np.uint64(1)], dtype=np.uint64),
    )


def empty_journal(flat: FlatProblem, state: SearchState) -> Journal:
    """A journal that no move has written to."""
    devices, pools = len(state.cost), len(state.ddr)
    widest = int(np.diff(flat.slot_first).max())
    return Journal(
        clock=np.zeros(3, dtype=np.int64),
        device=np.zeros(devices, dtype=np.int64),
        device_stamp=np.zeros(devices, dtype=np.int64),
        load=np.zeros_like(state.load),
        cost=np.zeros_like(state.cost),
        pool=np.zeros(pools, dtype=np.int64),
        pool_stamp=np.zeros(pools, dtype=np.int64),
        ddr=np.zeros_like(state.ddr),
        ddr_cost=np.zeros_like(state.ddr_cost),
        table=np.full(2, -1),
        option=np.full(2, -1),
        target=np.full((2, widest), -1),
    )


def limits_of(
    problem: Problem, makespan_us: Floats, most_memory_weight: float = MOST_MEMORY_WEIGHT, *, squared: bool = False
) -> LoadLimits:
    """Excess over the capacities costs its share of their mean, and over these makespans [K] its share of their sum: with `squared` its
    square besides, so that one device that is late costs more than many that are so together."""
    load = np.empty((problem.num_devices, problem.num_stages + 1))
    load[:, :-1] = makespan_us
    load[:, -1] = problem.hbm_capacity
    weight = np.full(problem.num_stages + 1, 1.0 / max(float(makespan_us.sum()), 1e-9))
    square_weight = np.zeros(problem.num_stages + 1)
    if squared:
        square_weight[:-1] = weight[:-1] ** 2 / SQUARED
    weight[-1] = 1.0 / max(float(problem.hbm_capacity.mean()), 1.0)
    ddr = problem.ddr_capacity.astype(np.float64)
    ddr_weight = np.full(len(ddr), 1.0 / max(float(ddr.mean()), 1.0))
    memory_weight = np.array([weight[-1], weight[-1] * most_memory_weight, ddr_weight[0], ddr_weight[0] * most_memory_weight])
    return LoadLimits(load, weight, square_weight, ddr, ddr_weight, memory_weight)
