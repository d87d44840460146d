"""The cover of a question as a problem, beside the problem of what is offered."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from emplace.placement.model import ShardingType
from emplace.placement.plan import Question
from emplace.solver.model.cover import Cover, Way
from emplace.solver.model.cover_options import CoverBlock, CoverPricer
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.indexing import Number
from emplace.solver.model.items import allowed_with_loads
from emplace.solver.model.problem import Floats, Ints, Problem, Scope


def cover_of(offered: Problem, device_kind: Ints, question: Question, pricer: CoverPricer, fixed: Fixed, fixed_us: Floats) -> Cover:
    """For the same devices as `offered`, of the pricer's kinds ([D]): tables that are not fixed, each by itself, then one for each rank that fixed tables load
    ([ranks, K] microseconds)."""
    tables = question.model.tables
    free = np.array([index not in fixed.placements and table.constraints.pin is None for index, table in enumerate(tables)])
    blocks = list(pricer.blocks(free))
    loaded = np.flatnonzero(fixed_us.any(axis=1))
    number = np.cumsum(free) - 1
    kinds, stages, count = int(device_kind.max()) + 1, offered.num_stages, len(loaded)
    loads = np.zeros((count, kinds, stages))
    loads[np.arange(count), device_kind[loaded]] = fixed_us[loaded]
    nothing = np.zeros((count, kinds), np.int64)
    table = np.concatenate([*(number[block.table] for block in blocks), int(free.sum()) + np.arange(count)]).astype(np.int64)
    order = np.argsort(table, kind="stable")
    ones = np.ones(count)

    def joined(name: str, of_loads: NDArray[Number]) -> NDArray[Number]:
        return np.concatenate([*(getattr(block, name) for block in blocks), of_loads])[order]

    shared = {field.name: getattr(offered, field.name) for field in fields(Problem) if not field.name.startswith(("option_", "unit_"))}
    items: list[tuple[int, ...]] = [(index,) for index in np.flatnonzero(free).tolist()]
    mean_us = joined("mean_us", loads)
    of_blocks = [Way(block.sharding_type, block.kernel, block.on_server) for block in blocks]
    ways = tuple(dict.fromkeys(of_blocks))
    return Cover(
        **shared | {"device_kind": device_kind, "allowed": allowed_with_loads(question.model, items, fixed, loaded, offered.num_devices)},
        option_table=table[order],
        option_scope=_repeated(blocks, [int(block.scope) for block in blocks], np.full(count, int(Scope.DEVICE)))[order],
        option_kind=_repeated(blocks, [block.kind for block in blocks], device_kind[loaded])[order],
        option_first_unit=np.arange(len(table) + 1),
        unit_time_us=mean_us,
        unit_hbm_bytes=joined("hbm_bytes", nothing),
        unit_ddr_bytes=joined("ddr_bytes", nothing),
        count=joined("count", ones),
        share=joined("share", ones),
        least_us=joined("least_us", loads),
        largest_us=joined("largest_us", fixed_us[loaded]),
        shortest_us=joined("shortest_us", fixed_us[loaded]),
        least_hbm_bytes=joined("least_hbm_bytes", nothing),
        least_ddr_bytes=joined("least_ddr_bytes", nothing),
        sharding_type=_repeated(blocks, [list(ShardingType).index(block.sharding_type) for block in blocks], np.full(count, -1))[order],
        way=_repeated(blocks, [ways.index(way) for way in of_blocks], np.full(count, -1))[order],
        ways=ways,
        pieces=joined("pieces", np.ones(count, np.int64)),
    )


def _repeated(blocks: list[CoverBlock], values: list[int], of_loads: Ints) -> Ints:
    """[O] one value for all options of a block."""
    each = (np.full(len(block.table), value) for block, value in zip(blocks, values, strict=True))
    return np.concatenate([*each, of_loads]).astype(np.int64)
