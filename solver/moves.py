"""The compiled kernel: annealing over moves of one or two tables.

A move proposes options and targets for up to two tables, applies them to the loads, and takes them back if the rule of
Metropolis refuses. The journal keeps what it touched, so taking back is exact.
"""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

import numpy as np

from solver.compiled import compiled
from solver.problem import Floats, Ints
from solver.search_state import Journal, Layout, Limits, State

# Of 100 moves: shift one slot; swap two; give one table another option; swap two tables and give each another option.
SHIFT, SWAP, CHANGE = 30, 65, 88
BALANCE_EVERY, BALANCE_STEP = 2048, 1e-3
"""Moves between two looks at how the target is split between the stages, and the share of it then moved, at first."""
TRIES = 3
"""Devices drawn to find an overloaded one, or targets drawn to find a cheap one."""


@compiled
def _random(state: State) -> int:
    """31 random bits (xorshift64*): the same stream on every machine."""
    x = state.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state.random[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33))


@compiled
def _below(state: State, n: int) -> int:
    return (_random(state) * n) >> 31


@compiled
def _device_cost(limits: Limits, state: State, device: int) -> float:
    cost = 0.0
    for column in range(state.load.shape[1]):
        over = state.load[device, column] - limits.load[device, column]
        if over > 0.0:
            cost += over * limits.weight[column]
    return cost


@compiled
def _pool_cost(limits: Limits, state: State, pool: int) -> float:
    over = state.ddr[pool] - limits.ddr[pool]
    return over * limits.ddr_weight[pool] if over > 0.0 else 0.0


@compiled
def recount(layout: Layout, limits: Limits, state: State, base: Floats) -> float:
    """Add up all loads and chains afresh from options and targets, and return the overload."""
    for device in range(len(state.head)):
        for column in range(state.load.shape[1]):
            state.load[device, column] = base[column]
    state.ddr[:] = 0.0
    state.head[:] = -1
    state.slots[:] = 0
    for table in range(len(state.option)):
        first, option = layout.slot_first[table], state.option[table]
        unit = layout.option_first_unit[option]
        for offset in range(layout.option_first_unit[option + 1] - unit):
            target = state.target[first + offset]
            _add(layout, state, unit + offset, target, 1.0)
            if target < len(state.head):
                _chain(state, first + offset, target)
    return reprice(limits, state)


@compiled
def reprice(limits: Limits, state: State) -> float:
    """The overload under changed limits."""
    for device in range(len(state.cost)):
        state.cost[device] = _device_cost(limits, state, device)
    for pool in range(len(state.ddr)):
        state.ddr_cost[pool] = _pool_cost(limits, state, pool)
    return _overload(state)


@compiled
def _balance(limits: Limits, state: State, step: float) -> None:
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
def _overload(state: State) -> float:
    total = 0.0
    for device in range(len(state.cost)):
        total += state.cost[device]
    for pool in range(len(state.ddr)):
        total += state.ddr_cost[pool]
    return total


@compiled
def _add(layout: Layout, state: State, unit: int, target: int, sign: float) -> None:
    for index in range(layout.cover_first[target], layout.cover_first[target + 1]):
        device = layout.cover_device[index]
        kind = layout.kind[device]
        for column in range(state.load.shape[1]):
            state.load[device, column] += sign * layout.unit_load[unit, kind, column]
        state.ddr[layout.pool[device]] += sign * layout.unit_ddr[unit, kind]


@compiled
def _chain(state: State, slot: int, device: int) -> None:
    first = state.head[device]
    state.next[slot] = first
    state.previous[slot] = -1
    if first >= 0:
        state.previous[first] = slot
    state.head[device] = slot
    state.slots[device] += 1


@compiled
def _unchain(state: State, slot: int, device: int) -> None:
    before, after = state.previous[slot], state.next[slot]
    if before >= 0:
        state.next[before] = after
    else:
        state.head[device] = after
    if after >= 0:
        state.previous[after] = before
    state.slots[device] -= 1


@compiled
def greedy(layout: Layout, limits: Limits, state: State, order: Ints, options: Ints, taken: Ints) -> None:
    """Place every table, in `order`, with the given `options`: each unit where the largest load, as a share of its limit,
    stays least. Loads are left to recount; `taken` is [targets] of -1 to work on."""
    for table in order:
        option = options[table]
        first, unit = layout.slot_first[table], layout.option_first_unit[option]
        state.option[table] = option
        for offset in range(layout.option_first_unit[option + 1] - unit):
            target = _roomiest_target(layout, limits, state, table, unit + offset, layout.option_group[option], taken)
            taken[target] = table
            state.target[first + offset] = target
            _add(layout, state, unit + offset, target, 1.0)


@compiled
def _roomiest_target(layout: Layout, limits: Limits, state: State, table: int, unit: int, group: int, taken: Ints) -> int:
    best, least = -1, np.inf
    for index in range(layout.group_first[group], layout.group_first[group + 1]):
        target = layout.group_target[index]
        if taken[target] != table and layout.allowed[table % len(layout.allowed), target]:
            share = _largest_share(layout, limits, state, unit, target)
            if share < least:
                best, least = target, share
    return best


@compiled
def _largest_share(layout: Layout, limits: Limits, state: State, unit: int, target: int) -> float:
    """The largest load with `unit` on `target`, as a share of its limit; shares beyond the limit count tenfold."""
    worst = 0.0
    for index in range(layout.cover_first[target], layout.cover_first[target + 1]):
        device = layout.cover_device[index]
        kind, pool = layout.kind[device], layout.pool[device]
        for column in range(state.load.shape[1]):
            added = layout.unit_load[unit, kind, column]
            if added > 0.0:
                worst = max(worst, (state.load[device, column] + added) / max(limits.load[device, column], 1e-9))
        added = layout.unit_ddr[unit, kind]
        if added > 0.0:
            worst = max(worst, (state.ddr[pool] + added) / max(limits.ddr[pool], 1e-9))
    return worst if worst <= 1.0 else 10.0 * worst


@compiled
def anneal(
    layout: Layout,
    limits: Limits,
    state: State,
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
        if moves % BALANCE_EVERY == 0 and state.load.shape[1] > 2:
            _balance(limits, state, BALANCE_STEP * (1.0 - progress))
            overload = reprice(limits, state)
        moves += 1
        spent += 2.0
        _propose(layout, limits, state, journal)
        if journal.table[0] < 0:
            continue
        change = _apply(layout, limits, state, journal)
        spent += journal.clock[1]
        price = 0.0
        for index in range(2):
            if journal.table[index] >= 0:
                price += layout.option_price[journal.option[index]] - layout.option_price[state.option[journal.table[index]]]
        energy = change + price
        if energy <= 0.0 or energy < -temperature * np.log((_random(state) + 1.0) / 2147483648.0):
            overload += change
            _commit(layout, state, journal)
            if overload < 1e-9 and _overload(state) == 0.0:
                return 0.0, spent, moves
        else:
            _take_back(state, journal)
    return overload, spent, moves


@compiled
def _propose(layout: Layout, limits: Limits, state: State, journal: Journal) -> None:
    """Fill journal.table, option and target; table[0] stays -1 where the draw gave no legal move."""
    journal.table[:] = -1
    draw = _below(state, 100)
    slot = _slot_on(state, _loaded_device(state))
    if draw < SHIFT:
        if slot >= 0:
            _propose_shift(layout, state, journal, slot)
    elif draw < SWAP or draw >= CHANGE:
        other = _slot_on(state, _below(state, len(state.cost)))
        if slot >= 0 and other >= 0:
            _propose_swap(layout, state, journal, slot, other, draw >= CHANGE)
    else:
        table = layout.slot_table[slot] if slot >= 0 and draw % 4 else _below(state, len(state.option))
        _propose_change(layout, limits, state, journal, table)


@compiled
def _loaded_device(state: State) -> int:
    """Of a few devices drawn at random, the most overloaded one."""
    best = _below(state, len(state.cost))
    for _ in range(TRIES - 1):
        other = _below(state, len(state.cost))
        if state.cost[other] > state.cost[best]:
            best = other
    return best


@compiled
def _slot_on(state: State, device: int) -> int:
    """A random slot on `device`, or -1."""
    if state.slots[device] == 0:
        return -1
    slot = state.head[device]
    for _ in range(_below(state, state.slots[device])):
        slot = state.next[slot]
    return slot


@compiled
def _keep(layout: Layout, state: State, journal: Journal, index: int, table: int) -> None:
    """Propose `table` as it is."""
    first, option = layout.slot_first[table], state.option[table]
    journal.table[index] = table
    journal.option[index] = option
    for offset in range(layout.option_first_unit[option + 1] - layout.option_first_unit[option]):
        journal.target[index, offset] = state.target[first + offset]


@compiled
def _propose_shift(layout: Layout, state: State, journal: Journal, slot: int) -> None:
    table = layout.slot_table[slot]
    option = state.option[table]
    _keep(layout, state, journal, 0, table)
    offset = slot - layout.slot_first[table]
    units = layout.option_first_unit[option + 1] - layout.option_first_unit[option]
    target = _free_target(layout, state, journal, 0, layout.option_group[option], units)
    if target < 0:
        journal.table[0] = -1
    else:
        journal.target[0, offset] = target


@compiled
def _free_target(layout: Layout, state: State, journal: Journal, index: int, group: int, proposed: int) -> int:
    """A random target of a group that the table may use and that none of its first `proposed` units takes, or -1."""
    size = layout.group_first[group + 1] - layout.group_first[group]
    if size == 0:
        return -1
    target = layout.group_target[layout.group_first[group] + _below(state, size)]
    if not layout.allowed[journal.table[index] % len(layout.allowed), target]:
        return -1
    for offset in range(proposed):
        if journal.target[index, offset] == target:
            return -1
    return target


@compiled
def _propose_swap(layout: Layout, state: State, journal: Journal, slot: int, other: int, change: bool) -> None:
    """Exchange the devices of two slots of two tables; with `change`, of two tables on single devices, options too."""
    table, partner = layout.slot_table[slot], layout.slot_table[other]
    device, place = state.target[slot], state.target[other]
    if table == partner or device == place:
        return
    if not layout.allowed[table % len(layout.allowed), place] or not layout.allowed[partner % len(layout.allowed), device]:
        return
    _keep(layout, state, journal, 0, table)
    _keep(layout, state, journal, 1, partner)
    legal = True
    if change:
        legal = _redraw_option(layout, state, journal, 0, place) and _redraw_option(layout, state, journal, 1, device)
    elif layout.kind[device] != layout.kind[place]:
        legal = False
    else:
        legal = not _uses(layout, state, table, place) and not _uses(layout, state, partner, device)
        journal.target[0, slot - layout.slot_first[table]] = place
        journal.target[1, other - layout.slot_first[partner]] = device
    if not legal:
        journal.table[:] = -1


@compiled
def _uses(layout: Layout, state: State, table: int, target: int) -> bool:
    first, option = layout.slot_first[table], state.option[table]
    for offset in range(layout.option_first_unit[option + 1] - layout.option_first_unit[option]):
        if state.target[first + offset] == target:
            return True
    return False


@compiled
def _redraw_option(layout: Layout, state: State, journal: Journal, index: int, device: int) -> bool:
    """Propose a random single-device candidate on `device`; False if the draw has more units or another kind."""
    table = journal.table[index]
    first = layout.candidate_first[table]
    option = layout.candidate[first + _below(state, layout.candidate_first[table + 1] - first)]
    journal.option[index] = option
    journal.target[index, 0] = device
    return (
        layout.option_group[option] == layout.kind[device] and layout.option_first_unit[option + 1] - layout.option_first_unit[option] == 1
    )


@compiled
def _propose_change(layout: Layout, limits: Limits, state: State, journal: Journal, table: int) -> None:
    """Another option, or the same one placed anew. Units mostly stay on the targets of a different old option as far as they
    can; the others go to the cheapest of a few targets."""
    first, old = layout.candidate_first[table], state.option[table]
    option = layout.candidate[first + _below(state, layout.candidate_first[table + 1] - first)]
    group, unit = layout.option_group[option], layout.option_first_unit[option]
    if option == old and group == len(layout.group_first) - 2:
        return
    journal.table[0], journal.option[0] = table, option
    kept = 0
    if option != old and layout.option_group[old] == group:
        kept = layout.option_first_unit[old + 1] - layout.option_first_unit[old]
    for offset in range(layout.option_first_unit[option + 1] - unit):
        target = -1
        if offset < kept and _below(state, 4) > 0:
            target = state.target[layout.slot_first[table] + offset]
            for earlier in range(offset):
                if journal.target[0, earlier] == target:
                    target = -1
        if target < 0:
            target = _cheapest_target(layout, limits, state, journal, unit + offset, group, offset)
        if target < 0:
            journal.table[0] = -1
            return
        journal.target[0, offset] = target


@compiled
def _cheapest_target(layout: Layout, limits: Limits, state: State, journal: Journal, unit: int, group: int, proposed: int) -> int:
    """Of a few free targets drawn at random, the one where `unit` adds the least overload; -1 if none was free."""
    best, least = -1, np.inf
    for _ in range(TRIES):
        target = _free_target(layout, state, journal, 0, group, proposed)
        if target >= 0:
            cost = _cost_with(layout, limits, state, unit, target)
            if cost < least:
                best, least = target, cost
    return best


@compiled
def _cost_with(layout: Layout, limits: Limits, state: State, unit: int, target: int) -> float:
    """What `unit` would add to the overload of the devices of `target`; only the first device of a wide one is looked at."""
    device = layout.cover_device[layout.cover_first[target]]
    kind = layout.kind[device]
    cost = -state.cost[device]
    for column in range(state.load.shape[1]):
        over = state.load[device, column] + layout.unit_load[unit, kind, column] - limits.load[device, column]
        if over > 0.0:
            cost += over * limits.weight[column]
    return cost


@compiled
def _apply(layout: Layout, limits: Limits, state: State, journal: Journal) -> float:
    """Change the loads as proposed and return how the overload changes."""
    journal.clock[0] += 1
    journal.clock[1] = 0
    journal.clock[2] = 0
    for index in range(2):
        if journal.table[index] >= 0:
            _move_table(layout, state, journal, index)
    change = 0.0
    for index in range(journal.clock[1]):
        device = journal.device[index]
        journal.cost[device] = state.cost[device]
        state.cost[device] = _device_cost(limits, state, device)
        change += state.cost[device] - journal.cost[device]
    for index in range(journal.clock[2]):
        pool = journal.pool[index]
        journal.ddr_cost[pool] = state.ddr_cost[pool]
        state.ddr_cost[pool] = _pool_cost(limits, state, pool)
        change += state.ddr_cost[pool] - journal.ddr_cost[pool]
    return change


@compiled
def _move_table(layout: Layout, state: State, journal: Journal, index: int) -> None:
    table = journal.table[index]
    first, old, new = layout.slot_first[table], state.option[table], journal.option[index]
    unit, new_unit = layout.option_first_unit[old], layout.option_first_unit[new]
    for offset in range(layout.option_first_unit[old + 1] - unit):
        if new != old or journal.target[index, offset] != state.target[first + offset]:
            _move_unit(layout, state, journal, unit + offset, state.target[first + offset], -1.0)
    for offset in range(layout.option_first_unit[new + 1] - new_unit):
        if new != old or journal.target[index, offset] != state.target[first + offset]:
            _move_unit(layout, state, journal, new_unit + offset, journal.target[index, offset], 1.0)


@compiled
def _move_unit(layout: Layout, state: State, journal: Journal, unit: int, target: int, sign: float) -> None:
    for index in range(layout.cover_first[target], layout.cover_first[target + 1]):
        device = layout.cover_device[index]
        kind, pool = layout.kind[device], layout.pool[device]
        if journal.device_stamp[device] != journal.clock[0]:
            journal.device_stamp[device] = journal.clock[0]
            journal.device[journal.clock[1]] = device
            journal.clock[1] += 1
            for column in range(state.load.shape[1]):
                journal.load[device, column] = state.load[device, column]
        for column in range(state.load.shape[1]):
            state.load[device, column] += sign * layout.unit_load[unit, kind, column]
        if layout.unit_ddr[unit, kind] != 0.0:
            if journal.pool_stamp[pool] != journal.clock[0]:
                journal.pool_stamp[pool] = journal.clock[0]
                journal.pool[journal.clock[2]] = pool
                journal.clock[2] += 1
                journal.ddr[pool] = state.ddr[pool]
            state.ddr[pool] += sign * layout.unit_ddr[unit, kind]


@compiled
def _take_back(state: State, journal: Journal) -> None:
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
def _commit(layout: Layout, state: State, journal: Journal) -> None:
    """Write options, targets and chains; the loads are there already."""
    devices = len(state.head)
    for index in range(2):
        table = journal.table[index]
        if table < 0:
            continue
        first, old, new = layout.slot_first[table], state.option[table], journal.option[index]
        for offset in range(layout.option_first_unit[old + 1] - layout.option_first_unit[old]):
            if state.target[first + offset] < devices:
                _unchain(state, first + offset, state.target[first + offset])
        state.option[table] = new
        for offset in range(layout.option_first_unit[new + 1] - layout.option_first_unit[new]):
            state.target[first + offset] = journal.target[index, offset]
            if journal.target[index, offset] < devices:
                _chain(state, first + offset, journal.target[index, offset])
