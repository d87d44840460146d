"""Tables that must share a device, as one table of the program: its options are combinations of theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.solver.model.dominance import undominated
from emplace.solver.model.problem import Floats, Ints

MAX_COMBINATIONS = 48
"""Kept of one group on one kind of device. Of more that are not dominated, some evenly over their HBM bytes are kept."""


@dataclass(frozen=True)
class OptionArrays:
    """Options with the loads of their units, as in solver/model/problem.py. `layout` [O] indexes a list of layouts."""

    table: Ints
    layout: Ints
    first_unit: Ints
    time_us: Floats
    hbm_bytes: Ints
    ddr_bytes: Ints


@dataclass(frozen=True)
class Combined:
    """Options of groups, one unit each; `layouts[i]` holds one layout index per table for option i."""

    arrays: OptionArrays
    layouts: tuple[tuple[int, ...], ...]


def combine(options: OptionArrays, groups: list[tuple[int, ...]], layout_kind: Ints) -> Combined:
    """The combinations for each group, table_wise on one kind of device (`layout_kind` [layouts]).

    `table` of the result is the group's index.
    """
    _, kinds, stages = options.time_us.shape
    tables: list[int] = []
    chosen: list[tuple[int, ...]] = []
    loads: list[Floats] = []
    kind_of: list[int] = []
    for number, group in enumerate(groups):
        by_kind = [_by_kind(options, layout_kind, table) for table in group]
        for kind in sorted(set.intersection(*map(set, by_kind))):
            picked, load = _front([each[kind] for each in by_kind], options, kind)
            tables += [number] * len(picked)
            kind_of += [kind] * len(picked)
            chosen += picked
            loads.append(load)
    count = len(tables)
    together = np.concatenate([np.empty((0, kinds * stages + 2)), *loads])
    time_us = together[:, :-2].reshape(count, kinds, stages)
    hbm, ddr = np.zeros((count, kinds), np.int64), np.zeros((count, kinds), np.int64)
    each = np.arange(count)
    if count:
        hbm[each, kind_of], ddr[each, kind_of] = together[:, -2].astype(np.int64), together[:, -1].astype(np.int64)
    arrays = OptionArrays(np.array(tables, np.int64), np.arange(count), np.arange(count + 1), time_us, hbm, ddr)
    return Combined(arrays, tuple(chosen))


def _by_kind(options: OptionArrays, layout_kind: Ints, table: int) -> dict[int, Ints]:
    """Options of a table by kind of device."""
    these = np.arange(*np.searchsorted(options.table, [table, table + 1]))
    kind = layout_kind[options.layout[these]]
    return {each: these[kind == each] for each in np.unique(kind).tolist()}


def _front(choices: list[Ints], options: OptionArrays, kind: int) -> tuple[list[tuple[int, ...]], Floats]:
    """Combinations of one option a table that no other beats in every stage, in HBM and in system memory."""
    picked: list[tuple[int, ...]] = [()]
    loads = np.zeros((1, options.time_us[0].size + 2))
    for these in choices:
        unit = options.first_unit[these]
        times_us = options.time_us[unit].reshape(len(unit), -1)
        own = np.column_stack([times_us, options.hbm_bytes[unit, kind], options.ddr_bytes[unit, kind]])
        sums = (loads[:, None, :] + own[None, :, :]).reshape(-1, loads.shape[1])
        kept = np.flatnonzero(undominated(sums))
        kept = kept[np.argsort(sums[kept, -2], kind="stable")]
        if len(kept) > MAX_COMBINATIONS:
            kept = kept[np.linspace(0, len(kept) - 1, MAX_COMBINATIONS).round().astype(np.int64)]
        picked = [(*picked[index // len(these)], int(options.layout[these[index % len(these)]])) for index in kept.tolist()]
        loads = sums[kept]
    return picked, loads
