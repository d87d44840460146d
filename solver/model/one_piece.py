"""Whole tables under the name of a type that cuts columns: a job that has such a type anyway need not pay for another one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from emplace.placement.model import DataType, ShardingType
from emplace.solver.model.layouts import WHOLE, Layout, permits
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Floats, Ints


def in_one_piece(priced: PricedQuestion, types: Collection[ShardingType]) -> PricedQuestion:
    """With every whole table that may be of one of `types` as that, in one piece; but for those that are kept together.

    Groups stay table_wise: that is what keeping tables together means.
    """
    named = {WHOLE[kind]: kind for kind in types}
    layouts, option_layout, time_us = list(priced.layouts), priced.option_layout.copy(), priced.problem.unit_time_us.copy()
    for index, layout in enumerate(priced.layouts):
        if (kind := named.get(layout.sharding_type)) is None:
            continue
        piece = replace(layout, sharding_type=kind)
        options = _open_options(priced, index, piece)
        option_layout[options] = len(layouts)
        layouts.append(piece)
        _charge_order(priced, layout, piece, options, time_us)
    return replace(priced, problem=replace(priced.problem, unit_time_us=time_us), layouts=tuple(layouts), option_layout=option_layout)


def _open_options(priced: PricedQuestion, index: int, piece: Layout) -> Ints:
    """The options with the layout at `index` of single tables that may have it as `piece`."""
    tables = priced.pricer.tables
    allowed = np.array([permits(constraints, piece) for constraints in tables.constraints])[tables.constraint]
    with_it = [option for option in np.flatnonzero(priced.option_layout == index).tolist() if option not in priced.option_layouts]
    return np.array([option for option in with_it if allowed[_table(priced, option)]], dtype=np.int64)


def _table(priced: PricedQuestion, option: int) -> int:
    return priced.items[int(priced.problem.option_table[option])][0]


def _charge_order(priced: PricedQuestion, whole: Layout, piece: Layout, options: Ints, time_us: Floats) -> None:
    """Add what putting vectors in order takes, if that takes anything: it is done with a single piece, too."""
    cost = priced.question.cost_model
    if cost.per_permuted_vector_us == 0 and cost.per_permuted_byte_us == 0:
        return
    of_kind = dict(zip(priced.problem.device_kind.tolist(), priced.topology.ranks, strict=True))
    for data_type, some in _by_data_type(priced, options).items():
        table = np.array([_table(priced, option) for option in some.tolist()])
        rows, columns = priced.pricer.tables.rows[table][:, None], priced.pricer.tables.columns[table][:, None] // whole.column_blocks
        for kind, rank in of_kind.items():
            if rank.is_server == whole.on_server and whole.device in (None, rank.device):
                before, after = (priced.pricer.shards(each, rank, data_type, table, rows, columns) for each in (whole, piece))
                time_us[priced.problem.option_first_unit[some], kind] += (after.time_us - before.time_us)[:, 0]


def _by_data_type(priced: PricedQuestion, options: Ints) -> dict[DataType, Ints]:
    types = [priced.question.model.tables[_table(priced, option)].data_type for option in options.tolist()]
    return {each: options[[of is each for of in types]] for each in dict.fromkeys(types)}
