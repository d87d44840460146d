"""A scaled-down copy of a plan: fewer rows a table, the same sharding types, ranks, columns and features."""

from __future__ import annotations

from collections.abc import Sequence

from emplace.placement.memory import row_bytes
from emplace.placement.model import ModelSpec, ShardingType, Table
from emplace.placement.plan import Plan, Shard, TablePlacement
from emplace.placement.workload import ROW_SPLIT

MAX_ROWS = 4096
MAX_BYTES = 64 * 2**20
_MIN_ROWS = 64


def scaled_plan(plan: Plan, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> Plan:
    """`plan` with tables of at most `max_rows` rows, and fewer where they would take more than `max_bytes` together.

    Predicted figures are left as they are: they belong to the full plan.
    """
    spec = plan.question.model
    widths = sum(row_bytes(table.data_type, table.embedding_dim) for table in spec.tables)
    cap = max(_MIN_ROWS, min(max_rows, max_bytes // widths))
    tables = {table.name: min(table.num_embeddings, cap) for table in spec.tables}
    model = scaled_model(spec, tables)
    question = plan.question.model_copy(update={"model": model})
    return plan.model_copy(
        update={"question": question, "tables": tuple(_scaled_placement(table, tables[table.name]) for table in plan.tables)}
    )


def scaled_model(spec: ModelSpec, rows: dict[str, int]) -> ModelSpec:
    """`spec` with other hash sizes: `rows` by table name."""

    def resized(table: Table) -> Table:
        return table.model_copy(update={"num_embeddings": rows[table.name]})

    return spec.model_copy(update={"tables": tuple(resized(table) for table in spec.tables)})


def _scaled_placement(table: TablePlacement, rows: int) -> TablePlacement:
    return table.model_copy(update={"shards": tuple(_scaled_shards(table.sharding_type, table.shards, rows))})


def _scaled_shards(sharding_type: ShardingType, shards: Sequence[Shard], rows: int) -> list[Shard]:
    if sharding_type not in ROW_SPLIT:
        return [shard.model_copy(update={"rows": (0, rows)}) for shard in shards]

    def scaled(shard: Shard) -> Shard:
        blocks = sorted((other.rows[0], other.rank) for other in shards if other.columns == shard.columns)
        # TorchRec's input distribution cuts at multiples of ceil(rows / blocks).
        block, index = -(-rows // len(blocks)), blocks.index((shard.rows[0], shard.rank))
        return shard.model_copy(update={"rows": (min(index * block, rows), min((index + 1) * block, rows))})

    return [scaled(shard) for shard in shards]
