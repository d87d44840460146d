"""Who gets the hot rows of tables that are split by rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emplace.placement.model import ModelSpec, Table
from emplace.placement.plan import HotRank, Plan
from emplace.placement.topology import Topology
from emplace.placement.workload import ROW_SPLIT, TableLoad, model_loads


def hottest_place(model: ModelSpec, loads: Sequence[TableLoad], topology: Topology) -> int | None:
    """The place in a node of the trainers that would get the most values, if all tables were row_wise; None where all get as many.

    Bounds count the ranks at this place by themselves. Any place is right; this one makes bounds the highest.
    """
    if topology.servers or all(load.curves is None for load in loads):
        return None
    world, local = len(topology.trainers), topology.trainers_per_node
    values = np.zeros(world)
    for table, load in zip(model.tables, loads, strict=True):
        block = -(-table.num_embeddings // world)
        first = np.minimum(np.arange(world) * block, table.num_embeddings)
        share = load.row_share(first, np.minimum(block, table.num_embeddings - first), table.num_embeddings)
        values += load.global_lookups * table.embedding_dim * share.lookups
    return int(np.argmax(values.reshape(-1, local).sum(axis=0)))


def with_hot_ranks(plan: Plan) -> Plan:
    """The plan, which is sound, with the ranks that are hot under it."""
    found = hot_ranks(plan)
    return plan.model_copy(update={"hot_ranks": found}) if found else plan


def hot_ranks(plan: Plan) -> tuple[HotRank, ...] | None:
    """The hottest rank of each table of a sound plan that is split by rows and has blocks that take more than their share; None where there is none."""
    question = plan.sized_question
    tables = {table.name: (number, table) for number, table in enumerate(question.model.tables)}
    split = [
        placement
        for placement in plan.tables
        if placement.sharding_type in ROW_SPLIT and _may_be_uneven(tables[placement.name][1], question.model)
    ]
    if not split:
        return None
    loads, found = model_loads(question.model, plan.topology(), question.options.objective), []
    for placement in split:
        number, table = tables[placement.name]
        first, end = np.array([shard.rows for shard in placement.shards]).T
        lookups = np.broadcast_to(loads[number].row_share(first, end - first, table.num_embeddings).lookups, first.shape)
        if loads[number].curves is not None:
            rank = placement.shards[int(np.argmax(lookups))].rank
            found.append(HotRank(table=table.name, rank=rank, times_mean=float(lookups.max() / lookups.mean())))
    return tuple(found) or None


def _may_be_uneven(table: Table, model: ModelSpec) -> bool:
    """Whether blocks of its rows may take more and less than their share."""
    return table.ids is not None or not model.module_of(table).is_pooled
