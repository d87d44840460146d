"""Compiled arithmetic of loads: what putting a unit down or taking it up does to the overload, and taking a move back."""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

from emplace.solver.jit import compiled
from emplace.solver.local_search.state import Journal, LoadLimits, SearchState, below
from emplace.solver.model.flat import FlatProblem
from emplace.solver.model.problem import Floats

TRIES = 3
"""Devices drawn to find an overloaded one."""


@compiled
def device_cost(limits: LoadLimits, state: SearchState, device: int) -> float:
    """The weighted excess of a device's loads over their limits."""
    cost = 0.0
    for column in range(state.load.shape[1]):
        over = state.load[device, column] - limits.load[device, column]
        if over > 0.0:
            cost += over * limits.weight[column]
    return cost


@compiled
def pool_cost(limits: LoadLimits, state: SearchState, pool: int) -> float:
    """The weighted excess of a pool's system memory over its limit."""
    over = state.ddr[pool] - limits.ddr[pool]
    return over * limits.ddr_weight[pool] if over > 0.0 else 0.0


@compiled
def cost_with(flat: FlatProblem, limits: LoadLimits, state: SearchState, unit: int, target: int) -> float:
    """What `unit` would add to the overload on `target`."""
    cost = 0.0
    for index in range(flat.cover_first[target], flat.cover_first[target + 1]):
        device = flat.cover_device[index]
        kind, pool = flat.kind[device], flat.pool[device]
        cost -= state.cost[device]
        for column in range(state.load.shape[1]):
            over = state.load[device, column] + flat.unit_load[unit, kind, column] - limits.load[device, column]
            if over > 0.0:
                cost += over * limits.weight[column]
        if flat.unit_ddr[unit, kind] > 0.0:
            over = state.ddr[pool] + flat.unit_ddr[unit, kind] - limits.ddr[pool]
            if over > 0.0:
                cost += min(over, flat.unit_ddr[unit, kind]) * limits.ddr_weight[pool]
    return cost


@compiled
def recount(flat: FlatProblem, limits: LoadLimits, state: SearchState, base: Floats) -> float:
    """Add up all loads and chains afresh from options and targets, and return the overload. Option -1 is no load."""
    for device in range(len(state.head)):
        for column in range(state.load.shape[1]):
            state.load[device, column] = base[column]
    state.ddr[:] = 0.0
    state.head[:] = -1
    state.slots[:] = 0
    for table in range(len(state.option)):
        first, option = flat.slot_first[table], state.option[table]
        if option < 0:
            continue
        unit = flat.option_first_unit[option]
        for offset in range(flat.option_first_unit[option + 1] - unit):
            target = state.target[first + offset]
            add(flat, state, unit + offset, target)
            if target < len(state.head):
                chain(state, first + offset, target)
    return reprice(limits, state)


@compiled
def reprice(limits: LoadLimits, state: SearchState) -> float:
    """The overload under changed limits."""
    for device in range(len(state.cost)):
        state.cost[device] = device_cost(limits, state, device)
    for pool in range(len(state.ddr)):
        state.ddr_cost[pool] = pool_cost(limits, state, pool)
    return overload_of(state)


@compiled
def overload_of(state: SearchState) -> float:
    """The excess of all devices and pools."""
    total = 0.0
    for device in range(len(state.cost)):
        total += state.cost[device]
    for pool in range(len(state.ddr)):
        total += state.ddr_cost[pool]
    return total


@compiled
def add(flat: FlatProblem, state: SearchState, unit: int, target: int) -> None:
    """Add to the loads alone."""
    for index in range(flat.cover_first[target], flat.cover_first[target + 1]):
        device = flat.cover_device[index]
        kind = flat.kind[device]
        for column in range(state.load.shape[1]):
            state.load[device, column] += flat.unit_load[unit, kind, column]
        state.ddr[flat.pool[device]] += flat.unit_ddr[unit, kind]


@compiled
def begin(journal: Journal) -> None:
    """A new move: nothing touched, no table proposed."""
    journal.clock[0] += 1
    journal.clock[1] = 0
    journal.clock[2] = 0
    journal.table[:] = -1


@compiled
def move_unit(flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, unit: int, target: int, sign: float) -> None:
    """Put a unit down (+1) or take it up (-1): loads and overload follow, the journal remembers them as they were."""
    for index in range(flat.cover_first[target], flat.cover_first[target + 1]):
        device = flat.cover_device[index]
        kind, pool = flat.kind[device], flat.pool[device]
        if journal.device_stamp[device] != journal.clock[0]:
            journal.device_stamp[device] = journal.clock[0]
            journal.device[journal.clock[1]] = device
            journal.clock[1] += 1
            journal.cost[device] = state.cost[device]
            for column in range(state.load.shape[1]):
                journal.load[device, column] = state.load[device, column]
        cost = 0.0
        for column in range(state.load.shape[1]):
            state.load[device, column] += sign * flat.unit_load[unit, kind, column]
            over = state.load[device, column] - limits.load[device, column]
            if over > 0.0:
                cost += over * limits.weight[column]
        state.cost[device] = cost
        if flat.unit_ddr[unit, kind] != 0.0:
            if journal.pool_stamp[pool] != journal.clock[0]:
                journal.pool_stamp[pool] = journal.clock[0]
                journal.pool[journal.clock[2]] = pool
                journal.clock[2] += 1
                journal.ddr[pool] = state.ddr[pool]
                journal.ddr_cost[pool] = state.ddr_cost[pool]
            state.ddr[pool] += sign * flat.unit_ddr[unit, kind]
            state.ddr_cost[pool] = pool_cost(limits, state, pool)


@compiled
def change_of(state: SearchState, journal: Journal) -> float:
    """By how much the move has changed the overload so far."""
    change = 0.0
    for index in range(journal.clock[1]):
        device = journal.device[index]
        change += state.cost[device] - journal.cost[device]
    for index in range(journal.clock[2]):
        pool = journal.pool[index]
        change += state.ddr_cost[pool] - journal.ddr_cost[pool]
    return change


@compiled
def take_back(state: SearchState, journal: Journal) -> None:
    """Loads and overload as they were before the move."""
    for index in range(journal.clock[1]):
        device = journal.device[index]
        state.cost[device] = journal.cost[device]
        for column in range(state.load.shape[1]):
            state.load[device, column] = journal.load[device, column]
    for index in range(journal.clock[2]):
        pool = journal.pool[index]
        state.ddr[pool] = journal.ddr[pool]
        state.ddr_cost[pool] = journal.ddr_cost[pool]


@compiled
def commit(flat: FlatProblem, state: SearchState, journal: Journal) -> None:
    """Write the proposed options, targets and chains; the loads are there already."""
    devices = len(state.head)
    for index in range(2):
        table = journal.table[index]
        if table < 0:
            continue
        first, old, new = flat.slot_first[table], state.option[table], journal.option[index]
        for offset in range(flat.option_first_unit[old + 1] - flat.option_first_unit[old]):
            if state.target[first + offset] < devices:
                unchain(state, first + offset, state.target[first + offset])
        state.option[table] = new
        for offset in range(flat.option_first_unit[new + 1] - flat.option_first_unit[new]):
            state.target[first + offset] = journal.target[index, offset]
            if journal.target[index, offset] < devices:
                chain(state, first + offset, journal.target[index, offset])


@compiled
def chain(state: SearchState, slot: int, device: int) -> None:
    """Put a slot first on the list of a device's slots."""
    first = state.head[device]
    state.next[slot] = first
    state.previous[slot] = -1
    if first >= 0:
        state.previous[first] = slot
    state.head[device] = slot
    state.slots[device] += 1


@compiled
def unchain(state: SearchState, slot: int, device: int) -> None:
    """Take a slot off the list of a device's slots."""
    before, after = state.previous[slot], state.next[slot]
    if before >= 0:
        state.next[before] = after
    else:
        state.head[device] = after
    if after >= 0:
        state.previous[after] = before
    state.slots[device] -= 1


@compiled
def balance(limits: LoadLimits, state: SearchState, step: float) -> None:
    """Move a share of the target from the stage where the fewest devices exceed their limit to the one where most do.

    A longer stage relieves every device that exceeds it, so at the best split of the target these numbers are equal.
    Among stages that no device exceeds, the one with the most room gives.
    """
    stages = state.load.shape[1] - 1
    giver, taker, fewest, most, room, total = -1, -1, 0, -1, 0.0, 0.0
    for stage in range(stages):
        over, longest = 0, 0.0
        for device in range(len(state.cost)):
            longest = max(longest, state.load[device, stage])
            if state.load[device, stage] > limits.load[device, stage]:
                over += 1
        left = limits.load[0, stage] - longest
        total += limits.load[0, stage]
        if giver < 0 or over < fewest or (over == fewest and left > room):
            giver, fewest, room = stage, over, left
        if over > most:
            taker, most = stage, over
    if most > fewest:
        step *= total
        if fewest == 0:
            step = min(step, room)
        for device in range(len(state.cost)):
            limits.load[device, giver] -= step
            limits.load[device, taker] += step


@compiled
def look_for_overload(state: SearchState) -> None:
    """Note which devices are overloaded now."""
    count = 0
    for device in range(len(state.cost)):
        if state.cost[device] > 0.0:
            count += 1
            state.overloaded[count] = device
    state.overloaded[0] = count


@compiled
def loaded_device(state: SearchState) -> int:
    """Every other time one that was overloaded at the last look, if any was; else, of a few devices drawn at random, the most
    overloaded one."""
    count = state.overloaded[0]
    if count > 0 and below(state, 2):
        return state.overloaded[1 + below(state, count)]
    best = below(state, len(state.cost))
    for _ in range(TRIES - 1):
        other = below(state, len(state.cost))
        if state.cost[other] > state.cost[best]:
            best = other
    return best
