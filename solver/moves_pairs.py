"""Compiled: all ways to split what two devices hold between the two, the best one taken.

Annealing changes one or two tables at a time; where several stages must balance at once, its moves rarely fit. Two devices
that trade any number of their tables do so more often.
"""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

from solver.compiled import compiled
from solver.moves import balance, below, loaded_device, look_for_overload
from solver.moves_loads import chain, device_cost, overload_of, reprice, unchain
from solver.search_state import Layout, Limits, Split, State

WAY_WORK = 0.15
"""Work of trying one split, in touched devices."""
PAIR_WORK = 40.0
BALANCE_EVERY, BALANCE_STEP = 64, 2e-4
"""Pairs between two looks at how the target is split between the stages, and the share of it then moved."""
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
        spent += PAIR_WORK
        stale += 1
        if one == two or layout.kind[one] != layout.kind[two] or state.cost[one] <= 0.0:
            continue
        count = _gather(layout, state, split, one, two, 0)
        count = _gather(layout, state, split, two, one, count)
        spent += WAY_WORK * (1 << count)
        ways = _best_split(limits, state, split, one, two, count)
        if ways:
            stale = 0
            _apply(limits, state, split, one, two, count, ways)
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
def _best_split(limits: Limits, state: State, split: Split, one: int, two: int, count: int) -> int:
    """The set of slots (as bits) whose change of sides leaves the least overload on both devices; 0 where none beats now.

    In the order of Gray's code each way differs from the one before by one slot."""
    columns = state.load.shape[1]
    for column in range(columns):
        split.one[column] = state.load[one, column]
        split.both[column] = state.load[one, column] + state.load[two, column]
    least, best = (state.cost[one] + state.cost[two]) * (1.0 - 1e-9), 0
    for way in range(1, 1 << count):
        bit, rest = 0, way
        while rest & 1 == 0:
            rest >>= 1
            bit += 1
        ways, cost = way ^ (way >> 1), 0.0
        moved = (ways >> bit & 1) == 1
        leaves = moved == (state.target[split.slot[bit]] == one)
        for column in range(columns):
            load = split.load[bit, column]
            split.one[column] += -load if leaves else load
            over = max(split.one[column] - limits.load[one, column], 0.0)
            cost += (over + max(split.both[column] - split.one[column] - limits.load[two, column], 0.0)) * limits.weight[column]
        if cost < least:
            least, best = cost, ways
            if cost == 0.0:
                break
    return best


@compiled
def _apply(limits: Limits, state: State, split: Split, one: int, two: int, count: int, ways: int) -> None:
    for index in range(count):
        if ways >> index & 1:
            slot = split.slot[index]
            here = state.target[slot]
            there = two if here == one else one
            for column in range(state.load.shape[1]):
                state.load[here, column] -= split.load[index, column]
                state.load[there, column] += split.load[index, column]
            unchain(state, slot, here)
            chain(state, slot, there)
            state.target[slot] = there
    state.cost[one] = device_cost(limits, state, one)
    state.cost[two] = device_cost(limits, state, two)
