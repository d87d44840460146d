"""What the compiled search works on: the problem laid out flat, and a placement with its loads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.problem import Assignment, Bools, Floats, Ints, Problem, Scope

DEAREST = 1000.0
"""The most that the weight of memory beside time grows to while it stays exceeded."""


class Layout(NamedTuple):
    """Constants of a search. L = K + 1 load columns: the stages, then HBM bytes. System memory is counted per pool.

    A target is a device (0..D-1), a trainer node (D..D+N-1) or all trainers (D+N). C options in all are candidates.
    """

    cover_first: Ints
    """[D + N + 2] devices of target t are cover_device[cover_first[t] : cover_first[t + 1]]."""
    cover_device: Ints
    kind: Ints
    """[D]"""
    pool: Ints
    """[D]"""
    group_first: Ints
    """[G + 3] targets of kind g are group_target[group_first[g] : group_first[g + 1]]; entry G holds the nodes, G + 1 all trainers."""
    group_target: Ints
    allowed: Bools
    """[T, D + N + 1], or [1, D + N + 1] where every table may go anywhere."""
    candidate_first: Ints
    """[T + 1]"""
    candidate: Ints
    option_first_unit: Ints
    """[O + 1]"""
    option_group: Ints
    """[O] index into group_first: the kind, G for nodes, G + 1 for all trainers."""
    option_price: Floats
    """[O] soft cost of choosing the option."""
    unit_load: Floats
    """[U, G, L]"""
    unit_ddr: Floats
    """[U, G]"""
    slot_first: Ints
    """[T + 1] slots of table t are slot_first[t] .. slot_first[t + 1] - 1, as many as its widest option has units."""
    slot_table: Ints
    """[S]"""


class Limits(NamedTuple):
    """Loads above these cost their excess times the weight."""

    load: Floats
    """[D, L]"""
    weight: Floats
    """[L]"""
    ddr: Floats
    """[P]"""
    ddr_weight: Floats
    """[P]"""
    memory_weight: Floats
    """[4] the least and the most that the weight of HBM may be, and that of system memory."""


class State(NamedTuple):
    """A placement and its loads. Slots that sit on single devices are chained per device."""

    option: Ints
    """[T]"""
    target: Ints
    """[S] of the slots in use."""
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


class Split(NamedTuple):
    """What two devices hold and may trade, of at most M slots, and the sides that these take as splits are gone through.

    Column L is the system memory of their pools; it counts where these differ.
    """

    slot: Ints
    """[M]"""
    load: Floats
    """[M, L + 1]"""
    size: Floats
    """[M] largest share of a limit."""
    limit: Floats
    """[2, L + 1] of both devices, and of their pools."""
    weight: Floats
    """[2, L + 1]"""
    held: Floats
    """[M + 1, 2, L + 1] loads of both devices, and of their pools, with as many slots on their sides."""
    side: Ints
    """[M] of the split in hand: 0 for the first device, 1 for the second."""
    tried: Ints
    """[M] how many sides of each slot have been tried."""
    best: Ints
    """[M] sides of the best split."""


def lay_out(problem: Problem) -> Layout:
    """Flatten `problem`, with every option a candidate at no price."""
    devices, kinds = problem.num_devices, problem.num_kinds
    trainers = np.flatnonzero(problem.device_is_trainer)
    nodes = _trainer_nodes(problem)
    covers = [np.array([d]) for d in range(devices)]
    covers += [trainers[problem.device_node[trainers] == node] for node in nodes]
    covers.append(trainers)
    groups = [np.flatnonzero(problem.device_kind == kind) for kind in range(kinds)]
    groups.append(np.arange(devices, devices + len(nodes)))
    groups.append(np.array([devices + len(nodes)]))
    first = np.searchsorted(problem.option_table, np.arange(problem.num_tables + 1))
    widest = np.maximum.reduceat(np.diff(problem.option_first_unit), first[:-1])
    group = np.select([problem.option_scope == Scope.DEVICE, problem.option_scope == Scope.NODE], [problem.option_kind, kinds], kinds + 1)
    return Layout(
        cover_first=np.concatenate([[0], np.cumsum([len(cover) for cover in covers])]),
        cover_device=np.concatenate(covers),
        kind=problem.device_kind,
        pool=problem.device_pool,
        group_first=np.concatenate([[0], np.cumsum([len(targets) for targets in groups])]),
        group_target=np.concatenate(groups),
        allowed=_allowed_targets(problem, covers),
        candidate_first=first,
        candidate=np.arange(problem.num_options),
        option_first_unit=problem.option_first_unit,
        option_group=group,
        option_price=np.zeros(problem.num_options),
        unit_load=np.concatenate([problem.unit_time_us, problem.unit_hbm_bytes[:, :, None].astype(np.float64)], axis=2),
        unit_ddr=problem.unit_ddr_bytes.astype(np.float64),
        slot_first=np.concatenate([[0], np.cumsum(widest)]),
        slot_table=np.repeat(np.arange(problem.num_tables), widest),
    )


def restricted(problem: Problem, layout: Layout, candidates: Bools, price: Floats) -> Layout:
    """The same, with only some options ([O], at least one a table) to change to, at these prices ([O])."""
    chosen = np.flatnonzero(candidates)
    first = np.searchsorted(problem.option_table[chosen], np.arange(problem.num_tables + 1))
    return layout._replace(candidate_first=first, candidate=chosen, option_price=price)


def _trainer_nodes(problem: Problem) -> Ints:
    return np.unique(problem.device_node[problem.device_is_trainer])


def _allowed_targets(problem: Problem, covers: list[Ints]) -> Bools:
    if problem.allowed is None:
        return np.ones((1, len(covers)), dtype=bool)
    allowed = problem.allowed
    return np.stack([np.all(allowed[:, cover], axis=1) for cover in covers], axis=1)


def empty_state(problem: Problem, layout: Layout, seed: int) -> State:
    """Nothing placed yet: options are -1."""
    devices, slots, columns = problem.num_devices, len(layout.slot_table), problem.num_stages + 1
    load = np.zeros((devices, columns))
    load[:, :-1] = problem.stage_base_us
    return State(
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


def empty_journal(layout: Layout, state: State) -> Journal:
    devices, pools = len(state.cost), len(state.ddr)
    widest = int(np.diff(layout.slot_first).max())
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


def empty_split(state: State, most: int) -> Split:
    columns = state.load.shape[1] + 1
    return Split(
        slot=np.zeros(most, dtype=np.int64),
        load=np.zeros((most, columns)),
        size=np.zeros(most),
        limit=np.zeros((2, columns)),
        weight=np.zeros((2, columns)),
        held=np.zeros((most + 1, 2, columns)),
        side=np.zeros(most, dtype=np.int64),
        tried=np.zeros(most, dtype=np.int64),
        best=np.zeros(most, dtype=np.int64),
    )


def to_assignment(problem: Problem, layout: Layout, option: Ints, target: Ints) -> Assignment:
    """In the terms of the problem: node numbers for NODE units, -1 for WORLD."""
    devices, nodes = problem.num_devices, _trainer_nodes(problem)
    name = np.concatenate([np.arange(devices), nodes, [-1]])
    units = np.diff(problem.option_first_unit)
    targets = tuple(
        tuple(int(name[t]) for t in target[first : first + units[o]]) for first, o in zip(layout.slot_first[:-1], option, strict=True)
    )
    return Assignment(option.copy(), targets)


def limits_of(problem: Problem, makespan_us: Floats, dearest: float = DEAREST) -> Limits:
    """Excess over these makespans [K], as a share of their sum, and over the capacities, as a share of their mean."""
    load = np.empty((problem.num_devices, problem.num_stages + 1))
    load[:, :-1] = makespan_us
    load[:, -1] = problem.hbm_capacity
    weight = np.full(problem.num_stages + 1, 1.0 / max(float(makespan_us.sum()), 1e-9))
    weight[-1] = 1.0 / max(float(problem.hbm_capacity.mean()), 1.0)
    ddr = problem.ddr_capacity.astype(np.float64)
    ddr_weight = np.full(len(ddr), 1.0 / max(float(ddr.mean()), 1.0))
    memory_weight = np.array([weight[-1], weight[-1] * dearest, ddr_weight[0], ddr_weight[0] * dearest])
    return Limits(load, weight, ddr, ddr_weight, memory_weight)
