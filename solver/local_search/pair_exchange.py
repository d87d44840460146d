"""Compiled: what two devices hold is split between them anew, the best way taken.

Annealing changes one or two tables at a time; where several stages must balance at once, its moves rarely fit. Two devices
that trade any number of their tables do so more often. Two devices without overload are split anew at random: that costs
next to nothing, and what they then hold may be what an overloaded one needs.
"""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

from emplace.solver.budget import PAIR_WORK, WAY_WORK
from emplace.solver.jit import compiled
from emplace.solver.local_search.loads import (
    balance,
    chain,
    device_cost,
    loaded_device,
    look_for_overload,
    overload_of,
    pool_cost,
    reprice,
    unchain,
)
from emplace.solver.local_search.state import LoadLimits, SearchState, Split, below, random_bits
from emplace.solver.model.flat import FlatProblem

MOST_WAYS = 16_000
"""Sides tried for one pair; then the best split so far is taken."""
BALANCE_EVERY, BALANCE_STEP = 64, 2e-4
"""Pairs between two looks at how the target is split between the stages, and the share of it then moved."""
NOTHING = 1e-300
"""Only no overload at all is less."""
STALE = 30.0
"""Pairs without success, per device, after which there is nothing left to find."""


@compiled
def resplit_pairs(flat: FlatProblem, limits: LoadLimits, state: SearchState, split: Split, work: float) -> tuple[float, float]:
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
        if one == two or flat.kind[one] != flat.kind[two]:
            continue
        count = _gather(flat, state, split, one, two, 0)
        count = _gather(flat, state, split, two, one, count)
        found, ways = _best_split(flat, limits, state, split, one, two, count)
        spent += WAY_WORK * ways
        if found:
            if _cost_of(flat, state, one, two) > 0.0:
                stale = 0
            _apply(flat, limits, state, split, one, two, count)
    return overload_of(state), spent


@compiled
def _gather(flat: FlatProblem, state: SearchState, split: Split, here: int, there: int, count: int) -> int:
    """Append to the `count` slots of `split` those on `here` that may go `there`; once full, each later one replaces an
    earlier one at random."""
    slot, seen = state.head[here], count
    while slot >= 0:
        if _may_go(flat, state, slot, there):
            place = seen if seen < len(split.slot) else below(state, seen + 1)
            if place < len(split.slot):
                _note(flat, state, split, slot, place)
            seen += 1
        slot = state.next[slot]
    return min(seen, len(split.slot))


@compiled
def _note(flat: FlatProblem, state: SearchState, split: Split, slot: int, place: int) -> None:
    table = flat.slot_table[slot]
    unit = flat.option_first_unit[state.option[table]] + slot - flat.slot_first[table]
    kind = flat.kind[state.target[slot]]
    split.slot[place] = slot
    for column in range(state.load.shape[1]):
        split.load[place, column] = flat.unit_load[unit, kind, column]
    split.load[place, state.load.shape[1]] = flat.unit_ddr[unit, kind]


@compiled
def _may_go(flat: FlatProblem, state: SearchState, slot: int, there: int) -> bool:
    table = flat.slot_table[slot]
    first, option = flat.slot_first[table], state.option[table]
    alone = flat.allowed[table % len(flat.allowed), there]
    for offset in range(flat.option_first_unit[option + 1] - flat.option_first_unit[option]):
        alone = alone and state.target[first + offset] != there
    return alone


@compiled
def _columns(flat: FlatProblem, state: SearchState, one: int, two: int) -> int:
    """How many columns of `Split` count: all but the last where both draw on one pool."""
    return state.load.shape[1] + (1 if flat.pool[one] != flat.pool[two] else 0)


@compiled
def _cost_of(flat: FlatProblem, state: SearchState, one: int, two: int) -> float:
    """Overload of two devices, and of their pools where these differ."""
    cost = state.cost[one] + state.cost[two]
    if flat.pool[one] != flat.pool[two]:
        cost += state.ddr_cost[flat.pool[one]] + state.ddr_cost[flat.pool[two]]
    return cost


@compiled
def _prepare(flat: FlatProblem, limits: LoadLimits, state: SearchState, split: Split, one: int, two: int, count: int) -> None:
    """Limits, the loads of both devices without any slot, and the largest slots first."""
    loads, columns = state.load.shape[1], _columns(flat, state, one, two)
    for side in range(2):
        device = one if side == 0 else two
        pool = flat.pool[device]
        for column in range(loads):
            split.held[0, side, column] = state.load[device, column]
            split.limit[side, column] = limits.load[device, column]
            split.weight[side, column] = limits.weight[column]
        split.held[0, side, loads] = state.ddr[pool]
        split.limit[side, loads] = limits.ddr[pool]
        split.weight[side, loads] = limits.ddr_weight[pool]
    for index in range(count):
        here = 0 if state.target[split.slot[index]] == one else 1
        size = 0.0
        for column in range(columns):
            split.held[0, here, column] -= split.load[index, column]
            size = max(size, split.load[index, column] / max(split.limit[0, column], 1e-9))
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
            for column in range(loads + 1):
                load = split.load[index, column]
                split.load[index, column] = split.load[largest, column]
                split.load[largest, column] = load


@compiled
def _best_split(
    flat: FlatProblem, limits: LoadLimits, state: SearchState, split: Split, one: int, two: int, count: int
) -> tuple[bool, int]:
    """Whether there is a split with less overload than now, or another one without any, and how many sides were tried.

    Depth first, the largest slots first, each to a random side first; a side that is overloaded too much already is left.
    """
    _prepare(flat, limits, state, split, one, two, count)
    first_sides, columns = random_bits(state), _columns(flat, state, one, two)
    least = max(_cost_of(flat, state, one, two) * (1.0 - 1e-9), NOTHING)
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
        for column in range(columns):
            here = split.held[depth, side, column] + split.load[depth, column]
            there = split.held[depth, 1 - side, column]
            split.held[depth + 1, side, column] = here
            split.held[depth + 1, 1 - side, column] = there
            cost += max(here - split.limit[side, column], 0.0) * split.weight[side, column]
            cost += max(there - split.limit[1 - side, column], 0.0) * split.weight[1 - side, column]
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
def _apply(flat: FlatProblem, limits: LoadLimits, state: SearchState, split: Split, one: int, two: int, count: int) -> None:
    loads = state.load.shape[1]
    for index in range(count):
        slot = split.slot[index]
        here, there = state.target[slot], one if split.best[index] == 0 else two
        if here == there:
            continue
        for column in range(loads):
            state.load[here, column] -= split.load[index, column]
            state.load[there, column] += split.load[index, column]
        state.ddr[flat.pool[here]] -= split.load[index, loads]
        state.ddr[flat.pool[there]] += split.load[index, loads]
        unchain(state, slot, here)
        chain(state, slot, there)
        state.target[slot] = there
    for device in (one, two):
        state.cost[device] = device_cost(limits, state, device)
        state.ddr_cost[flat.pool[device]] = pool_cost(limits, state, flat.pool[device])
