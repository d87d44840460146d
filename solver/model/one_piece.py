"""Whole tables under the name of a type that cuts columns: a job that has such a type anyway need not pay for another one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from emplace.placement.model import ShardingType
from emplace.placement.sharding import ShardShape
from emplace.solver.model.layouts import WHOLE, Layout, has_its_pieces, permits
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Bools, Floats, Ints


def in_one_piece(priced: PricedQuestion, types: Collection[ShardingType]) -> PricedQuestion:
    """With every whole table that may be of one of `types` as that, in one piece; but for those that are kept together.

    Groups stay table_wise: that is what keeping tables together means.
    """
    named = {WHOLE[kind]: kind for kind in types}
    layouts, option_layout, time_us = list(priced.layouts), priced.option_layout.copy(), priced.problem.unit_time_us.copy()
    table = _tables(priced)
    for index, layout in enumerate(priced.layouts):
        if (kind := named.get(layout.sharding_type)) is None:
            continue
        piece = replace(layout, sharding_type=kind)
        options = np.flatnonzero((priced.option_layout == index) & _may_have(priced, piece, table))
        option_layout[options] = len(layouts)
        layouts.append(piece)
        _charge_order(priced, (layout, piece), options, table[options], time_us)
    problem = replace(priced.problem, unit_time_us=time_us)
    return replace(priced, problem=problem, layouts=tuple(layouts), option_layout=option_layout)


def _tables(priced: PricedQuestion) -> Ints:
    """[O] the table of each option; -1 of groups, and of what fixed tables load."""
    of_item = np.array([item[0] for item in priced.items] + [-1], dtype=np.int64)
    table = of_item[np.minimum(priced.problem.option_table, len(priced.items))]
    table[list(priced.option_layouts)] = -1
    return table


def _may_have(priced: PricedQuestion, piece: Layout, table: Ints) -> Bools:
    """[O] whether the option's table may have the layout."""
    tables = priced.pricer.tables
    allowed = np.array([permits(constraints, piece) for constraints in tables.constraints])[tables.constraint]
    return np.asarray((table >= 0) & (allowed & has_its_pieces(piece, tables))[table])


def _charge_order(priced: PricedQuestion, layouts: tuple[Layout, Layout], options: Ints, table: Ints, time_us: Floats) -> None:
    """Add what putting vectors in order takes, if that takes anything: it is done with a single piece, too.

    `layouts`: of the whole tables, and in one piece.
    """
    cost, (whole, _) = priced.question.cost_model, layouts
    if cost.per_permuted_vector_us == 0 and cost.per_permuted_byte_us == 0:
        return
    of_kind = dict(zip(priced.problem.device_kind.tolist(), priced.topology.ranks, strict=True))
    types = [each.data_type for each in priced.question.model.tables]
    for data_type in dict.fromkeys(types):
        some = np.flatnonzero([types[each] is data_type for each in table.tolist()])
        rows = priced.pricer.tables.rows[table[some]][:, None]
        columns = priced.pricer.tables.columns[table[some]][:, None] // whole.column_blocks
        shape = ShardShape(rows, columns)
        for kind, rank in of_kind.items():
            if len(some) and rank.is_server == whole.on_server and whole.device in (None, rank.device):
                before, after = (priced.pricer.shards(each, rank, data_type, table[some], shape) for each in layouts)
                time_us[priced.problem.option_first_unit[options[some]], kind] += (after.time_us - before.time_us)[:, 0]
