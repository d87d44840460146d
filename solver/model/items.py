"""What the program places as one table: a table of the model, a group that is kept together, or what fixed tables load on a rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.placement.model import ModelSpec
from emplace.placement.plan import Question
from emplace.placement.topology import Topology
from emplace.solver.model.colocation import OptionArrays, combine
from emplace.solver.model.conflicts import Groups
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.layouts import allowed_ranks
from emplace.solver.model.problem import Bools, Floats, Ints


@dataclass(frozen=True)
class Items:
    """`options.table` counts the items, then one for each rank that fixed tables load; those have `layout` -1."""

    items: tuple[tuple[int, ...], ...]
    """Tables of the model, by index."""
    options: OptionArrays
    option_kind: Ints
    option_layouts: dict[int, tuple[int, ...]]
    """For options of groups, one layout for each table of the group."""
    allowed: Bools | None
    """[items and loaded ranks, ranks]; None where everything may go anywhere."""
    apart: Groups
    """Items that may share no device."""


def items_of(
    question: Question,
    topology: Topology,
    options: OptionArrays,
    layout_kind: Ints,
    device_kind: Ints,
    fixed: Fixed,
    fixed_us: Floats,
) -> Items:
    """From the options of single tables, with what fixed tables take of each rank's time ([ranks, K])."""
    model = question.model
    groups = _groups(model, fixed)
    grouped = {table for group in groups for table in group}
    items = sorted([*groups, *((index,) for index in range(len(model.tables)) if index not in grouped and index not in fixed.placements)])
    loaded = np.flatnonzero(fixed_us.any(axis=1))
    allowed = allowed_with_loads(model, items, fixed, loaded, len(topology.ranks))
    apart = _apart(model, items)
    if not groups and not fixed.placements:
        return Items(tuple(items), options, layout_kind[options.layout], {}, allowed, apart)
    combined = combine(options, groups, layout_kind)
    number = {item: index for index, item in enumerate(items)}
    single = np.array([number.get((table,), -1) for table in range(len(model.tables))], dtype=np.int64)[options.table]
    of_group = np.array([number[group] for group in groups], dtype=np.int64)[combined.arrays.table]
    parts = [
        _chosen(options, single >= 0, single),
        OptionArrays(
            of_group,
            np.array([chosen[0] for chosen in combined.layouts], dtype=np.int64),
            combined.arrays.first_unit,
            combined.arrays.time_us,
            combined.arrays.hbm_bytes,
            combined.arrays.ddr_bytes,
        ),
        rank_loads(fixed_us[loaded], device_kind[loaded], len(items), options.time_us.shape[1]),
    ]
    kinds = [layout_kind[parts[0].layout], layout_kind[parts[1].layout], device_kind[loaded]]
    joined, order = in_table_order(parts)
    first_of_groups = len(parts[0].table)
    place = {int(before): after for after, before in enumerate(order)}
    layouts = {place[first_of_groups + index]: chosen for index, chosen in enumerate(combined.layouts)}
    return Items(tuple(items), joined, np.concatenate(kinds)[order], layouts, allowed, apart)


def _groups(model: ModelSpec, fixed: Fixed) -> list[tuple[int, ...]]:
    """Groups that are kept together, less their fixed tables."""
    index = {table.name: number for number, table in enumerate(model.tables)}
    groups = (tuple(sorted(index[name] for name in group if index[name] not in fixed.placements)) for group in model.together or ())
    return [group for group in groups if group]


def allowed_with_loads(model: ModelSpec, items: list[tuple[int, ...]], fixed: Fixed, loaded: Ints, num_ranks: int) -> Bools | None:
    """[items and loaded ranks, ranks] where each may sit: items as `allowed_ranks_of` says, and what a rank is loaded with on itself."""
    rows = allowed_ranks_of(model, items, fixed, num_ranks)
    if rows is None and not len(loaded):
        return None
    own = np.arange(num_ranks) == loaded[:, None]
    return np.concatenate([np.ones((len(items), num_ranks), dtype=bool) if rows is None else rows, own])


def allowed_ranks_of(model: ModelSpec, items: list[tuple[int, ...]], fixed: Fixed, num_ranks: int) -> Bools | None:
    """[items, ranks] where all tables of an item may sit, and where a fixed table of its group is; None where all may go anywhere."""
    by_table = allowed_ranks(model.tables, num_ranks)
    beside, taken = _beside(model, fixed), _taken(model, fixed)
    if by_table is None and not beside and not taken:
        return None
    rows = np.ones((len(items), num_ranks), dtype=bool)
    for row, item in zip(rows, items, strict=True):
        for table in item:
            if by_table is not None:
                row &= by_table[table]
            if table in beside:
                row &= np.arange(num_ranks) == beside[table]
            row[sorted(taken.get(table, ()))] = False
    return rows


def _beside(model: ModelSpec, fixed: Fixed) -> dict[int, int]:
    """The rank of the fixed tables in the group of a table."""
    index = {table.name: number for number, table in enumerate(model.tables)}
    found = {}
    for group in model.together or ():
        ranks = [fixed.placements[index[name]].shards[0].rank for name in group if index[name] in fixed.placements]
        found.update({index[name]: ranks[0] for name in group} if ranks else {})
    return found


def _taken(model: ModelSpec, fixed: Fixed) -> dict[int, set[int]]:
    """The ranks of fixed tables that a table must be apart from."""
    index = {table.name: number for number, table in enumerate(model.tables)}
    found: dict[int, set[int]] = {}
    for group in model.apart or ():
        for name in group:
            for other in group:
                if other != name and index[other] in fixed.placements:
                    found.setdefault(index[name], set()).update(shard.rank for shard in fixed.placements[index[other]].shards)
    return found


def _apart(model: ModelSpec, items: list[tuple[int, ...]]) -> Groups:
    item_of = {model.tables[table].name: number for number, item in enumerate(items) for table in item}
    groups = (tuple(sorted({item_of[name] for name in group if name in item_of})) for group in model.apart or ())
    return tuple(group for group in groups if len(group) > 1)


def _chosen(options: OptionArrays, keep: Bools, table: Ints) -> OptionArrays:
    units = np.diff(options.first_unit)
    of_kept = np.repeat(keep, units)
    return OptionArrays(
        table[keep],
        options.layout[keep],
        np.append(0, np.cumsum(units[keep])),
        options.time_us[of_kept],
        options.hbm_bytes[of_kept],
        options.ddr_bytes[of_kept],
    )


def rank_loads(time_us: Floats, kind: Ints, first_table: int, kinds: int) -> OptionArrays:
    """One table for each loaded rank, with one option of one unit; its bytes are already off the capacities."""
    count = len(kind)
    each = np.arange(count)
    spread = np.zeros((count, kinds, time_us.shape[1]))
    spread[each, kind] = time_us
    none = np.zeros((count, kinds), np.int64)
    return OptionArrays(first_table + each, np.full(count, -1), np.arange(count + 1), spread, none, none)


def in_table_order(parts: list[OptionArrays]) -> tuple[OptionArrays, Ints]:
    """All options in the order of their tables, and for each where it was."""
    table = np.concatenate([part.table for part in parts])
    units = np.concatenate([np.diff(part.first_unit) for part in parts])
    order = np.argsort(table, kind="stable")
    first_unit = np.append(0, np.cumsum(units[order]))
    starts = (np.cumsum(units) - units)[order]
    gather = np.repeat(starts - first_unit[:-1], units[order]) + np.arange(first_unit[-1])
    time_us, hbm, ddr = (np.concatenate([getattr(part, name) for part in parts])[gather] for name in ("time_us", "hbm_bytes", "ddr_bytes"))
    return OptionArrays(table[order], np.concatenate([part.layout for part in parts])[order], first_unit, time_us, hbm, ddr), order
