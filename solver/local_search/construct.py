"""Compiled greedy placement: where the search starts."""

# mypy: disable-error-code="no-any-return,return-value"
from __future__ import annotations

import numpy as np

from emplace.solver.jit import compiled
from emplace.solver.local_search.loads import add
from emplace.solver.local_search.state import LoadLimits, SearchState
from emplace.solver.model.flat import FlatProblem
from emplace.solver.model.problem import Ints


@compiled
def greedy(flat: FlatProblem, limits: LoadLimits, state: SearchState, order: Ints, options: Ints, taken: Ints) -> None:
    """Place every table, in `order`, with the given `options`: each unit where the largest load, as a share of its limit,
    stays least. Loads are left to recount; `taken` is [targets] of -1 to work on."""
    for table in order:
        option = options[table]
        first, unit = flat.slot_first[table], flat.option_first_unit[option]
        state.option[table] = option
        for offset in range(flat.option_first_unit[option + 1] - unit):
            target = _roomiest_target(flat, limits, state, table, unit + offset, flat.option_group[option], taken)
            taken[target] = table
            state.target[first + offset] = target
            add(flat, state, unit + offset, target)


@compiled
def _roomiest_target(flat: FlatProblem, limits: LoadLimits, state: SearchState, table: int, unit: int, group: int, taken: Ints) -> int:
    best, least = -1, np.inf
    for index in range(flat.group_first[group], flat.group_first[group + 1]):
        target = flat.group_target[index]
        if taken[target] != table and flat.allowed[table % len(flat.allowed), target]:
            share = _largest_share(flat, limits, state, unit, target)
            if share < least:
                best, least = target, share
    return best


@compiled
def _largest_share(flat: FlatProblem, limits: LoadLimits, state: SearchState, unit: int, target: int) -> float:
    """The largest load with `unit` on `target`, as a share of its limit; shares beyond the limit count tenfold."""
    worst = 0.0
    for index in range(flat.cover_first[target], flat.cover_first[target + 1]):
        device = flat.cover_device[index]
        kind, pool = flat.kind[device], flat.pool[device]
        for column in range(state.load.shape[1]):
            added = flat.unit_load[unit, kind, column]
            if added > 0.0:
                worst = max(worst, (state.load[device, column] + added) / max(limits.load[device, column], 1e-9))
        added = flat.unit_ddr[unit, kind]
        if added > 0.0:
            worst = max(worst, (state.ddr[pool] + added) / max(limits.ddr[pool], 1e-9))
    return worst if worst <= 1.0 else 10.0 * worst
