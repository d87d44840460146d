"""Compiled: what two devices hold is split between them anew, the best way taken.

Annealing changes one or two tables at a time; where several stages must balance at once, its moves rarely fit. Two devices
that trade any number of their tables do so more often. Two devices without overload are split anew at random: that costs
next to nothing, and what they then hold may be what an overloaded one needs.
"""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

from solver.compiled import compiled
from solver.moves import balance, below, loaded_device, look_for_overload, random_bits
from solver.moves_loads import chain, device_cost, overload_of, reprice, unchain
from solver.search_state import Layout, Limits, Split, State

WAY_WORK = 0.15
"""Work of trying a side for a slot, in touched devices."""
PAIR_WORK = 40.0
MOST_WAYS = 16_000
"""Sides tried for one pair; then the best split so far is taken."""
BALANCE_EVERY, BALANCE_STEP = 64, 2e-4
"""Pairs between two looks at how the target is split between the stages, and the share of it then moved."""
NOTHING = 1e-300
"""Only no overload at all is less."""
STALE = 30.0
"""Pairs without success, per device, after which there is nothing left to find."""


@compiled
def resplit_pairs(layout: Layout, limits: Limits, state: State, split: Split, work: float) -> tuple[float, float]:
    """Split overloaded devices' tables anew with other devices until `work` is done, nothing is overloaded or nothing more
    is found; returns the overload and the work done."""
    spent, stale, pairs = 0.0, 0, 0
    while spent < work and stale < STALE * len(state.cost):
        if pairs % BALANCE_EVERY == 0:
            if overload_of(state) <= 1e-9:
                break
            if state.load.shape[1] > 2:
                balance(limits, state, BALANCE_STEP)
                reprice(limits, state)
            look_for_overload(state)
        pairs += 1
        one, two = loaded_device(state), below(state, len(state.cost))
        if below(state, 2):
            one = below(state, len(state.cost))
        spent += PAIR_WORK
        stale += 1
        if one == two or layout.kind[one] != layout.kind[two]:
            continue
        count = _gather(layout, state, split, one, two, 0)
        count = _gather(layout, state, split, two, one, count)
        found, ways = _best_split(limits, state, split, one, two, count)
        spent += WAY_WORK * ways
        if found:
            if state.cost[one] + state.cost[two] > 0.0:
                stale = 0
            _apply(limits, state, split, one, two, count)
    return overload_of(state), spent


@compiled
def _gather(layout: Layout, state: State, split: Split, here: int, there: int, count: int) -> int:
    """Append to the `count` slots of `split` those on `here` that may go `there`; once full, each later one replaces an
    earlier one at random."""
    slot, seen = state.head[here], count
    while slot >= 0:
        if _may_go(layout, state, slot, here, there):
            place = seen if seen < len(split.slot) else below(state, seen + 1)
            if place < len(split.slot):
                _note(layout, state, split, slot, place)
            seen += 1
        slot = state.next[slot]
    return min(seen, len(split.slot))


@compiled
def _note(layout: Layout, state: State, split: Split, slot: int, place: int) -> None:
    table = layout.slot_table[slot]
    unit = layout.option_first_unit[state.option[table]] + slot - layout.slot_first[table]
    kind = layout.kind[state.target[slot]]
    split.slot[place] = slot
    for column in range(state.load.shape[1]):
        split.load[place, column] = layout.unit_load[unit, kind, column]


@compiled
def _may_go(layout: Layout, state: State, slot: int, here: int, there: int) -> bool:
    table = layout.slot_table[slot]
    first, option = layout.slot_first[table], state.option[table]
    unit = layout.option_first_unit[option]
    if layout.unit_ddr[unit + slot - first, layout.kind[here]] > 0.0 and layout.pool[here] != layout.pool[there]:
        return False
    alone = layout.allowed[table % len(layout.allowed), there]
    for offset in range(layout.option_first_unit[option + 1] - unit):
        alone = alone and state.target[first + offset] != there
    return alone


@compiled
def _prepare(limits: Limits, state: State, split: Split, one: int, two: int, count: int) -> None:
    """Largest slots first, and the loads of both devices without any."""
    for column in range(state.load.shape[1]):
        split.held[0, 0, column] = state.load[one, column]
        split.held[0, 1, column] = state.load[two, column]
    for index in range(count):
        here = 0 if state.target[split.slot[index]] == one else 1
        size = 0.0
        for column in range(state.load.shape[1]):
            split.held[0, here, column] -= split.load[index, column]
            size = max(size, split.load[index, column] / max(limits.load[one, column], 1e-9))
        split.size[index] = size
    for index in range(count):
        largest = index
        for other in range(index + 1, count):
            if split.size[other] > split.size[largest]:
                largest = other
        if largest != index:
            size, slot = split.size[index], split.slot[index]
            split.size[index], split.slot[index] = split.size[largest], split.slot[largest]
            split.size[largest], split.slot[largest] = size, slot
            for column in range(state.load.shape[1]):
                load = split.load[index, column]
                split.load[index, column] = split.load[largest, column]
                split.load[largest, column] = load


@compiled
def _best_split(limits: Limits, state: State, split: Split, one: int, two: int, count: int) -> tuple[bool, int]:
    """Whether there is a split with less overload than now, or another one without any, and how many sides were tried.

    Depth first, the largest slots first, each to a random side first; a side that is overloaded too much already is left.
    """
    _prepare(limits, state, split, one, two, count)
    first_sides = random_bits(state)
    least = max((state.cost[one] + state.cost[two]) * (1.0 - 1e-9), NOTHING)
    found, ways, depth = False, 0, 0
    split.tried[0] = 0
    if count == 0:
        return False, 0
    while depth >= 0 and ways < MOST_WAYS:
        if split.tried[depth] == 2:
            depth -= 1
            continue
        side = (split.tried[depth] + (first_sides >> depth)) & 1
        split.tried[depth] += 1
        ways += 1
        cost = 0.0
        for column in range(state.load.shape[1]):
            here = split.held[depth, side, column] + split.load[depth, column]
            there = split.held[depth, 1 - side, column]
            split.held[depth + 1, side, column] = here
            split.held[depth + 1, 1 - side, column] = there
            mine, other = (one, two) if side == 0 else (two, one)
            cost += (max(here - limits.load[mine, column], 0.0) + max(there - limits.load[other, column], 0.0)) * limits.weight[column]
        if cost >= least:
            continue
        split.side[depth] = side
        if depth + 1 < count:
            depth += 1
            split.tried[depth] = 0
            continue
        found, least = True, cost
        for index in range(count):
            split.best[index] = split.side[index]
        if cost == 0.0:
            break
    return found, ways


@compiled
def _apply(limits: Limits, state: State, split: Split, one: int, two: int, count: int) -> None:
    for index in range(count):
        slot = split.slot[index]
        here, there = state.target[slot], one if split.best[index] == 0 else two
        if here == there:
            continue
        for column in range(state.load.shape[1]):
            state.load[here, column] -= split.load[index, column]
            state.load[there, column] += split.load[index, column]
        unchain(state, slot, here)
        chain(state, slot, there)
        state.target[slot] = there
    state.cost[one] = device_cost(limits, state, one)
    state.cost[two] = device_cost(limits, state, two)
