"""The concrete options of a small question: those of single tables, and combinations for tables that are kept together or apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.placement.model import ModelSpec, ShardingType
from emplace.solver.model.colocation import OptionArrays
from emplace.solver.model.concrete import ConcreteOptions, ConcretePlacer, ConcreteWay
from emplace.solver.model.dominance import undominated
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.items import allowed_ranks_of, in_table_order, rank_loads
from emplace.solver.model.problem import Bools, Floats, Ints

MOST_OF_ONE, MOST_IN_ALL, MOST_COMBINED = 10_000, 25_000, 6_000
"""The most options of one table, of all, and of a group before those that others beat are left out: with more it is not small."""
MOST_DEVICES, MOST_TABLES = 5, 10
"""With more, a search among all placements gets nowhere, and the bound of a cover is closer: it knows caches better."""


@dataclass(frozen=True)
class ConcreteItems:
    """`options[i]` are those of `items[i]`, tables by index."""

    ways: tuple[ConcreteWay, ...]
    items: tuple[tuple[int, ...], ...]
    options: tuple[ConcreteOptions, ...]


def concrete_items(placer: ConcretePlacer, model: ModelSpec, fixed: Fixed, hbm_room: Ints, ddr_room: Ints) -> ConcreteItems | None:
    """The items of a question that is small; None where it is not."""
    free = [index for index in range(len(model.tables)) if index not in fixed.placements]
    if not free or fixed.conflicts or len(free) > MOST_TABLES or len(hbm_room) > MOST_DEVICES:
        return None
    counts = [placer.count(index) for index in free]
    if max(counts, default=0) > MOST_OF_ONE or sum(counts) > MOST_IN_ALL:
        return None
    allowed = allowed_ranks_of(model, [(index,) for index in free], fixed, len(hbm_room))
    single = {
        index: placer.options(index, np.ones(len(hbm_room), dtype=bool) if allowed is None else allowed[number], hbm_room, ddr_room)
        for number, index in enumerate(free)
    }
    items, options = [], []
    for item in _components(model, free):
        joined: ConcreteOptions | None = single[item[0]]
        for index in range(1, len(item)):
            joined = (
                None if joined is None else _combined(placer, model, item[: index + 1], joined, single[item[index]], hbm_room, ddr_room)
            )
        if joined is None:
            return None
        items.append(item)
        options.append(joined)
    return ConcreteItems(placer.ways, tuple(items), tuple(options)) if sum(len(each.way) for each in options) <= MOST_IN_ALL else None


def _components(model: ModelSpec, free: list[int]) -> list[tuple[int, ...]]:
    """Tables that some chain of groups ties to each other, in order of their first."""
    number = {model.tables[index].name: place for place, index in enumerate(free)}
    pairs = [
        (number[one], number[other])
        for group in (*(model.together or ()), *(model.apart or ()))
        for one in group
        for other in group
        if one in number and other in number
    ]
    first = list(range(len(free)))
    for one, other in pairs:
        while first[one] != one:
            one = first[one]
        while first[other] != other:
            other = first[other]
        first[max(one, other)] = min(one, other)
    tied: dict[int, list[int]] = {}
    for place in range(len(free)):
        first[place] = first[first[place]]  # those before it point at the first of their own already
        tied.setdefault(first[place], []).append(free[place])
    return [tuple(tables) for tables in tied.values()]


def _combined(
    placer: ConcretePlacer,
    model: ModelSpec,
    item: tuple[int, ...],
    before: ConcreteOptions,
    last: ConcreteOptions,
    hbm_room: Ints,
    ddr_room: Ints,
) -> ConcreteOptions | None:
    """With the options of the item's last table: pairs that keep to its groups, less those that others beat. None if too many."""
    may = _may_meet(model, item, before.columns > 0, last.columns[:, 0] > 0)
    one, other = np.nonzero(may)
    if len(one) > MOST_COMBINED:
        return None
    pairs = ConcreteOptions(
        np.hstack([before.way[one], last.way[other]]),
        np.concatenate([before.columns[one], last.columns[other]], axis=1),
        before.time_us[one] + last.time_us[other],
        before.hbm_bytes[one] + last.hbm_bytes[other],
        before.ddr_bytes[one] + last.ddr_bytes[other],
    )
    pairs = pairs.where(placer.fits(pairs, hbm_room, ddr_room))
    bits = np.array([1 << list(ShardingType).index(way.sharding_type) for way in placer.ways])
    types = np.bitwise_or.reduce(bits[pairs.way], axis=1)
    keep = np.zeros(len(types), dtype=bool)
    for each in np.unique(types):
        alike = np.flatnonzero(types == each)
        part = pairs.where(alike)
        held = part.columns.reshape(len(alike), -1) > 0
        keep[alike] = undominated(np.hstack([part.time_us.reshape(len(alike), -1), part.hbm_bytes, part.ddr_bytes, held]))
    return pairs.where(keep)


def _may_meet(model: ModelSpec, item: tuple[int, ...], before: Bools, last: Bools) -> Bools:
    """[options before, options of the last] whether they keep to the groups that the item's last table is in."""
    names = [model.tables[index].name for index in item]
    may = np.ones((len(before), len(last)), dtype=bool)
    for groups, is_together in ((model.together, True), (model.apart, False)):
        for group in groups or ():
            if names[-1] in group:
                for place in (place for place, name in enumerate(names[:-1]) if name in group):
                    shared = before[:, place].astype(np.int64) @ last.T.astype(np.int64) > 0
                    may &= shared if is_together else ~shared
    return may


def program_options(found: ConcreteItems, fixed_us: Floats) -> tuple[OptionArrays, Ints]:
    """As the program has them, and the kind of each option: every rank is a kind of its own, and an option has one unit for all (-1).

    `layout` is an option's place among those of all items; -1 for what fixed tables take of each rank's time ([D, K]), one table for
    each such rank.
    """
    options, loaded = found.options, np.flatnonzero(fixed_us.any(axis=1))
    table = np.repeat(np.arange(len(options)), [len(each.way) for each in options])
    count, ranks = len(table), len(fixed_us)
    none = np.empty((0, ranks), np.int64)
    parts = [
        OptionArrays(
            table,
            np.arange(count),
            np.arange(count + 1),
            np.concatenate([np.empty((0, *fixed_us.shape)), *(each.time_us for each in options)]),
            np.concatenate([none, *(each.hbm_bytes for each in options)]),
            np.concatenate([none, *(each.ddr_bytes for each in options)]),
        ),
        rank_loads(fixed_us[loaded], loaded, len(options), ranks),
    ]
    joined, order = in_table_order(parts)
    return joined, np.concatenate([np.full(count, -1), loaded])[order]
