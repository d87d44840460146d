"""An earlier plan in the terms of a program: for each table the option that is as it was placed, where the program has one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from emplace.placement.model import ShardingType
from emplace.placement.plan import TablePlacement
from emplace.placement.sums import add_up
from emplace.solver.model.layouts import WHOLE, Layout, load_factor
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Assignment, Scope

Placed = Mapping[str, TablePlacement]
"""The tables of a plan by name."""


def with_warm_start(priced: PricedQuestion, placed: Placed) -> PricedQuestion:
    """The program with a warm start: tables as in `placed`, those without a counterpart without an option.

    Of a small question every placement is an option, and it is solved without.
    """
    if priced.columns is not None:
        return priced
    options_of: dict[int, list[int]] = {}
    for option, table in enumerate(priced.problem.option_table.tolist()):
        options_of.setdefault(table, []).append(option)
    found = [_as_placed(priced, options_of.get(item, []), tables, placed) for item, tables in enumerate(priced.items)]
    # What fixed tables load is a table of the program each, with one option and one place.
    found += [_UNKNOWN] * (priced.problem.num_tables - len(found))
    warm = Assignment(np.array([chosen for chosen, _ in found], dtype=np.int64), tuple(targets for _, targets in found))
    return replace(priced, problem=replace(priced.problem, warm_start=warm))


_UNKNOWN: tuple[int, tuple[int, ...]] = (-1, ())


def _as_placed(priced: PricedQuestion, options: list[int], tables: tuple[int, ...], placed: Placed) -> tuple[int, tuple[int, ...]]:
    """(option, targets) of an item: of its options as it was placed the one with the nearest load factors."""
    names = [priced.question.model.tables[table].name for table in tables]
    if any(name not in placed for name in names):
        return _UNKNOWN
    was = [placed[name] for name in names]
    near = {}
    for option in options:
        layouts = priced.layouts_of(option)
        if all(_is_alike(layout, each) for layout, each in zip(layouts, was, strict=True)):
            targets = _targets(priced, layouts[0], was[0])
            if targets is not None:
                near[option] = add_up(map(_distance, [priced] * len(was), layouts, tables, was)), targets
    if not near:
        return _UNKNOWN
    best = min(near, key=lambda option: near[option][0])
    return best, near[best][1]


def _is_alike(layout: Layout, was: TablePlacement) -> bool:
    if layout.kernel is not was.compute_kernel or layout.pieces != _pieces(layout, was):
        return False
    return _plain_type(layout.sharding_type, layout.pieces) is _plain_type(was.sharding_type, layout.pieces)


def _plain_type(kind: ShardingType, pieces: int) -> ShardingType:
    """What it is called but for a name that is there anyway: a search that names whole tables so begins with the same option."""
    return WHOLE.get(kind, kind) if pieces == 1 else kind


def _pieces(layout: Layout, was: TablePlacement) -> int:
    """Ranges of columns that take a target each."""
    return len(was.shards) if layout.scope is Scope.DEVICE else len({shard.columns for shard in was.shards}) // layout.column_blocks


def _targets(priced: PricedQuestion, layout: Layout, was: TablePlacement) -> tuple[int, ...] | None:
    """The targets that the pieces had, from left to right; None where they are not there, or of another kind."""
    if layout.scope is Scope.WORLD:
        return (-1,)
    ranks = priced.topology.ranks
    held = [shard.rank for shard in sorted(was.shards, key=lambda shard: (shard.columns, shard.rows))]
    if max(held) >= len(ranks):
        return None
    if layout.scope is Scope.DEVICE:
        is_kind = all((ranks[rank].device, ranks[rank].is_server) == (layout.device, layout.on_server) for rank in held)
        return tuple(held) if is_kind and len(set(held)) == len(held) else None
    nodes = tuple(dict.fromkeys(ranks[rank].node for rank in held))
    return nodes if len(nodes) == layout.pieces else None


def _distance(priced: PricedQuestion, layout: Layout, table: int, was: TablePlacement) -> float:
    factor = load_factor(priced.pricer.tables, layout, table)
    return 0.0 if factor is None else abs(math.log(factor / (was.cache_load_factor or 1.0)))
