"""Compiled greedy placement: where the search starts."""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

import numpy as np

from solver.compiled import compiled
from solver.moves_loads import add
from solver.problem import Ints
from solver.search_state import Layout, Limits, State


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
            add(layout, state, unit + offset, target)


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
