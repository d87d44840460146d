"""The compiled kernel: annealing over moves of one or two tables.

A move takes units up, draws options and targets for them, puts them down, and is taken back if the rule of Metropolis
refuses the change of overload and of the options' prices.
"""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

import numpy as np

from emplace.solver.budget import MOVE_WORK
from emplace.solver.jit import compiled
from emplace.solver.local_search.loads import (
    balance,
    begin,
    change_of,
    commit,
    cost_with,
    loaded_device,
    look_for_overload,
    move_unit,
    overload_of,
    reprice,
    take_back,
)
from emplace.solver.local_search.state import Journal, LoadLimits, SearchState, below, random_bits
from emplace.solver.model.flat import FlatProblem

SHIFT, SWAP, ONE, TWO = 25, 55, 75, 90
"""Shares of the moves, in percent and summed up: shift one slot; swap two; place one table anew with another option; place two. The rest
swaps two tables on single devices and draws their options."""
BALANCE_EVERY, BALANCE_STEP = 2048, 1e-3
"""Moves between two looks at how the target is split between the stages, and the share of it then moved, at first."""
DEARER, CHEAPER = 1.05, 0.97
"""Factors on the weight of memory at such a look, while some is exceeded and while none is."""
TRIES = 3
"""Targets drawn to find a cheap one."""


@compiled
def anneal(
    flat: FlatProblem,
    limits: LoadLimits,
    state: SearchState,
    journal: Journal,
    overload: float,
    done: float,
    work: float,
    total: float,
    hot: float,
    cold: float,
) -> tuple[float, float, int]:
    """Anneal for `work` units (devices touched) out of a run of `total`, of which `done` are behind; stop at no overload.

    Returns the overload, the work done and the number of moves.
    """
    moves, spent, temperature = 0, 0.0, hot
    while spent < work:
        progress = min((done + spent) / total, 1.0)
        if moves % 256 == 0:
            temperature = hot * (cold / hot) ** progress
            look_for_overload(state)
        if moves % BALANCE_EVERY == 0:
            _weigh_memory(limits, state)
            if state.load.shape[1] > 2:
                balance(limits, state, BALANCE_STEP * (1.0 - progress))
            overload = reprice(limits, state)
        moves += 1
        begin(journal)
        proposed = _propose(flat, limits, state, journal)
        spent += MOVE_WORK + journal.clock[1]
        energy = change_of(state, journal)
        overload_change = energy
        for index in range(2):
            if journal.table[index] >= 0:
                energy += flat.option_price[journal.option[index]] - flat.option_price[state.option[journal.table[index]]]
        if proposed and (energy <= 0.0 or energy < -temperature * np.log((random_bits(state) + 1.0) / 2147483648.0)):
            overload += overload_change
            commit(flat, state, journal)
            if overload < 1e-9 and overload_of(state) == 0.0:
                return 0.0, spent, moves
        else:
            take_back(state, journal)
    return overload, spent, moves


@compiled
def _weigh_memory(limits: LoadLimits, state: SearchState) -> None:
    """Exceeding memory costs more the longer it lasts, and less again while none is exceeded: a plan that is a little late
    is a plan, one that does not fit is none."""
    exceeded = False
    column = state.load.shape[1] - 1
    for device in range(len(state.cost)):
        exceeded = exceeded or state.load[device, column] > limits.load[device, column]
    least, most = limits.memory_weight[0], limits.memory_weight[1]
    factor = DEARER if exceeded else CHEAPER
    limits.weight[column] = min(max(limits.weight[column] * factor, least), most)
    for pool in range(len(state.ddr)):
        factor = DEARER if state.ddr[pool] > limits.ddr[pool] else CHEAPER
        limits.ddr_weight[pool] = min(max(limits.ddr_weight[pool] * factor, limits.memory_weight[2]), limits.memory_weight[3])


@compiled
def _propose(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal) -> bool:
    """Draw a move and apply it to the loads; False where the draw gave no legal one."""
    draw = below(state, 100)
    slot = _slot_on(state, loaded_device(state))
    if draw >= SWAP and draw < TWO:
        table = flat.slot_table[slot] if slot >= 0 and draw % 4 else below(state, len(state.option))
        other = below(state, len(state.option)) if draw >= ONE else table
        return _place_anew(flat, limits, state, journal, table, other)
    if slot < 0:
        return False
    if draw < SHIFT:
        return _shift(flat, limits, state, journal, slot)
    other = _slot_on(state, below(state, len(state.cost)))
    if other < 0:
        return False
    if draw < SWAP:
        return _swap(flat, limits, state, journal, slot, other)
    return _trade(flat, limits, state, journal, flat.slot_table[slot], flat.slot_table[other])


@compiled
def _slot_on(state: SearchState, device: int) -> int:
    """A random slot on `device`, or -1."""
    if state.slots[device] == 0:
        return -1
    slot = state.head[device]
    for _ in range(below(state, state.slots[device])):
        slot = state.next[slot]
    return slot


@compiled
def _units(flat: FlatProblem, option: int) -> int:
    return flat.option_first_unit[option + 1] - flat.option_first_unit[option]


@compiled
def _may_use(flat: FlatProblem, table: int, target: int) -> bool:
    return flat.allowed[table % len(flat.allowed), target]


@compiled
def _keep(flat: FlatProblem, state: SearchState, journal: Journal, index: int, table: int) -> None:
    """Propose `table` as it is."""
    first, option = flat.slot_first[table], state.option[table]
    journal.table[index] = table
    journal.option[index] = option
    for offset in range(_units(flat, option)):
        journal.target[index, offset] = state.target[first + offset]


@compiled
def _takes(flat: FlatProblem, journal: Journal, index: int, target: int) -> bool:
    """Whether some unit of a proposed table takes `target`."""
    found = False
    for offset in range(_units(flat, journal.option[index])):
        found |= journal.target[index, offset] == target
    return found


@compiled
def _relocate(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, index: int, offset: int, target: int) -> None:
    """Move one unit of a table proposed as it is."""
    unit = flat.option_first_unit[journal.option[index]] + offset
    move_unit(flat, limits, state, journal, unit, journal.target[index, offset], -1.0)
    move_unit(flat, limits, state, journal, unit, target, 1.0)
    journal.target[index, offset] = target


@compiled
def _shift(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, slot: int) -> bool:
    table = flat.slot_table[slot]
    group = flat.option_group[state.option[table]]
    target = flat.group_target[flat.group_first[group] + below(state, flat.group_first[group + 1] - flat.group_first[group])]
    _keep(flat, state, journal, 0, table)
    if not _may_use(flat, table, target) or _takes(flat, journal, 0, target):
        return False
    _relocate(flat, limits, state, journal, 0, slot - flat.slot_first[table], target)
    return True


@compiled
def _swap(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, slot: int, other: int) -> bool:
    """Exchange the devices of two slots of two tables."""
    table, partner = flat.slot_table[slot], flat.slot_table[other]
    device, place = state.target[slot], state.target[other]
    if table == partner or device == place or flat.kind[device] != flat.kind[place]:
        return False
    if not _may_use(flat, table, place) or not _may_use(flat, partner, device):
        return False
    _keep(flat, state, journal, 0, table)
    _keep(flat, state, journal, 1, partner)
    if _takes(flat, journal, 0, place) or _takes(flat, journal, 1, device):
        return False
    _relocate(flat, limits, state, journal, 0, slot - flat.slot_first[table], place)
    _relocate(flat, limits, state, journal, 1, other - flat.slot_first[partner], device)
    return True


@compiled
def _take_up(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, table: int) -> None:
    first, option = flat.slot_first[table], state.option[table]
    for offset in range(_units(flat, option)):
        move_unit(flat, limits, state, journal, flat.option_first_unit[option] + offset, state.target[first + offset], -1.0)


@compiled
def _draw_option(flat: FlatProblem, state: SearchState, table: int) -> int:
    first = flat.candidate_first[table]
    return flat.candidate[first + below(state, flat.candidate_first[table + 1] - first)]


@compiled
def _trade(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, table: int, partner: int) -> bool:
    """Two tables on single devices swap places, each with a single-device option drawn anew."""
    if table == partner or _units(flat, state.option[table]) != 1 or _units(flat, state.option[partner]) != 1:
        return False
    for index in range(2):
        mover, other = (table, partner) if index == 0 else (partner, table)
        option, target = _draw_option(flat, state, mover), state.target[flat.slot_first[other]]
        if target >= len(state.head) or _units(flat, option) != 1 or flat.option_group[option] != flat.kind[target]:
            return False
        if not _may_use(flat, mover, target):
            return False
        journal.table[index], journal.option[index], journal.target[index, 0] = mover, option, target
    for index in range(2):
        _take_up(flat, limits, state, journal, journal.table[index])
        move_unit(flat, limits, state, journal, flat.option_first_unit[journal.option[index]], journal.target[index, 0], 1.0)
    return True


@compiled
def _place_anew(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, table: int, other: int) -> bool:
    """Take up one table, or two different ones, and place each with an option drawn anew."""
    _take_up(flat, limits, state, journal, table)
    if other != table:
        _take_up(flat, limits, state, journal, other)
    if not _put_down(flat, limits, state, journal, 0, table):
        return False
    return other == table or _put_down(flat, limits, state, journal, 1, other)


@compiled
def _put_down(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, index: int, table: int) -> bool:
    """Units mostly stay where the table's old option had them, as far as the scope and the kind are the same; others go to
    the cheapest of a few targets."""
    old, option = state.option[table], _draw_option(flat, state, table)
    group, unit = flat.option_group[option], flat.option_first_unit[option]
    journal.table[index], journal.option[index] = table, option
    kept = _units(flat, old) if option != old and flat.option_group[old] == group else 0
    for offset in range(_units(flat, option)):
        target = -1
        if offset < kept and below(state, 4) > 0:
            target = state.target[flat.slot_first[table] + offset]
            for earlier in range(offset):
                if journal.target[index, earlier] == target:
                    target = -1
        if target < 0:
            target = _cheapest_target(flat, limits, state, journal, index, unit + offset, group, offset)
        if target < 0:
            return False
        journal.target[index, offset] = target
        move_unit(flat, limits, state, journal, unit + offset, target, 1.0)
    return True


@compiled
def _cheapest_target(
    flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, index: int, unit: int, group: int, proposed: int
) -> int:
    """The target where `unit` adds the least overload, among a few drawn at random that are free of the first `proposed` units
    of the table; -1 if none was."""
    first, size = flat.group_first[group], flat.group_first[group + 1] - flat.group_first[group]
    if size == 1:
        return flat.group_target[first] if proposed == 0 else -1
    best, least = -1, np.inf
    for _ in range(TRIES):
        target = flat.group_target[first + below(state, size)]
        free = _may_use(flat, journal.table[index], target)
        for offset in range(proposed):
            free = free and journal.target[index, offset] != target
        if free:
            cost = cost_with(flat, limits, state, unit, target)
            if cost < least:
                best, least = target, cost
    return best
