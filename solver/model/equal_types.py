"""Sharding types that another one makes superfluous: on a small target two types come to the same."""

from __future__ import annotations

from collections.abc import Iterator

from emplace.placement.cost_model import CollectiveCost
from emplace.placement.model import ShardingType
from emplace.placement.plan import Question
from emplace.placement.stages import sharding_type_stages_us
from emplace.placement.sums import add_up
from emplace.placement.topology import Topology
from emplace.solver.model.fixed import Fixed


def superfluous_types(question: Question, topology: Topology, fixed: Fixed, *, is_concrete: bool = False) -> frozenset[ShardingType]:
    """The types that no plan needs: whatever has one is no slower with a simpler one on all tables that have it.

    That asks for three things: the simpler type puts no more on any rank, it costs a step no more, and every table that
    may have the one may have the other. `is_concrete` says that every division of columns is an option.
    """
    equals = [*_equals(question, topology), *(_equals_of_columns(question) if is_concrete else ())]
    return frozenset(
        kind
        for kind, simpler in equals
        if _fixed_us(question, simpler, topology) <= _fixed_us(question, kind, topology)
        and _is_open_likewise(question, kind, simpler, fixed)
    )


def _equals(question: Question, topology: Topology) -> Iterator[tuple[ShardingType, ShardingType]]:
    """(type, simpler type): what the first does on this target, the second does with the same shards for no more time or bytes."""
    if topology.servers:
        return
    if len(topology.trainers) == 1:
        yield ShardingType.ROW_WISE, ShardingType.TABLE_WISE
    if topology.trainer_nodes == 1:
        yield ShardingType.TABLE_ROW_WISE, ShardingType.ROW_WISE
        # Pieces of column_wise lie on devices of one kind.
        if len({rank.device for rank in topology.trainers}) == 1:
            yield ShardingType.TABLE_COLUMN_WISE, ShardingType.COLUMN_WISE
    elif topology.trainers_per_node == 1 and _costs_no_more(question.cost_model.all_to_all, question.cost_model.reduce_scatter):
        yield ShardingType.TABLE_ROW_WISE, ShardingType.TABLE_WISE
        yield ShardingType.GRID_SHARD, ShardingType.COLUMN_WISE


def _equals_of_columns(question: Question) -> Iterator[tuple[ShardingType, ShardingType]]:
    """Where column_wise is any division, in one piece too: all that table_column_wise is, and table_wise if pieces need no order."""
    yield ShardingType.TABLE_COLUMN_WISE, ShardingType.COLUMN_WISE
    cost = question.cost_model
    is_any_division = all(module.column_width is None for module in question.model.modules or ())
    if is_any_division and not question.model.together and cost.per_permuted_vector_us == 0 and cost.per_permuted_byte_us == 0:
        yield ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE


def _costs_no_more(one: CollectiveCost, other: CollectiveCost) -> bool:
    """For as many bytes, fixed times apart."""
    return (
        one.per_intra_node_byte_us <= other.per_intra_node_byte_us
        and one.per_inter_node_byte_us <= other.per_inter_node_byte_us
        and one.per_server_byte_us <= other.per_server_byte_us
    )


def _fixed_us(question: Question, kind: ShardingType, topology: Topology) -> float:
    """What a step pays for the type once."""
    return add_up(sharding_type_stages_us(question.cost_model, kind, topology).values())


def _is_open_likewise(question: Question, kind: ShardingType, simpler: ShardingType, fixed: Fixed) -> bool:
    """Whether all tables that may have `kind` may have `simpler`: else some plan pays for `kind` anyway."""
    if any(placement.sharding_type is kind for placement in fixed.placements.values()):
        return False
    allowed = (question.model.limits(table).sharding_types for table in question.model.tables)
    return all(types is None or kind not in types or simpler in types for types in allowed)
