"""Hand-made plans for executor tests: the caller places the tables, placement derives bytes and times."""

from __future__ import annotations

from typing import Any

from emplace.placement.cost_model import CostModel
from emplace.placement.derived_plan import derive_plan
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType, Table
from emplace.placement.plan import LimitKind, Plan, PlanOptions, Question, Shard, SolverRecord, StoppedBy, TablePlacement
from tests.prices import bandwidth_prices

Layout = tuple[ShardingType, ComputeKernel, list[tuple[int, tuple[int, int], tuple[int, int]]]]
"""Sharding type, kernel, and (rank, rows, columns) of every shard."""


def build_plan(
    model: ModelSpec, host: HostSpec, layouts: dict[str, Layout], *, ranks: int, nodes: int = 1, cost: CostModel | None = None
) -> Plan:
    """A complete plan document that passes the audit. Has the host's remote servers where a shard is on one."""
    cost = cost or bandwidth_prices(host)
    question = Question(model=model, host=host, cost_model=cost, options=PlanOptions(nodes=nodes, ranks=ranks))
    on_server = any(rank >= ranks for _, _, parts in layouts.values() for rank, _, _ in parts)
    bare = tuple(_placement(table.name, *layouts[table.name]) for table in model.tables)
    by_hand = SolverRecord(
        seconds=0.0, seed=0, limit=10.0, limit_kind=LimitKind.WORK, stopped_by=StoppedBy.WORK, bound="none", version="by hand"
    )
    return derive_plan(question, bare, question.topology(with_servers=on_server), by_hand)


def _placement(name: str, kind: ShardingType, kernel: ComputeKernel, parts: list[tuple[int, Any, Any]]) -> TablePlacement:
    shards = tuple(Shard(rank=rank, rows=rows, columns=columns, hbm_bytes=0, ddr_bytes=0) for rank, rows, columns in parts)
    return TablePlacement(name=name, sharding_type=kind, compute_kernel=kernel, shards=shards)


def table_wise(table: Table, rank: int, kernel: ComputeKernel = ComputeKernel.FUSED) -> Layout:
    return ShardingType.TABLE_WISE, kernel, [(rank, (0, table.num_embeddings), (0, table.embedding_dim))]


def row_wise(table: Table, ranks: list[int], kind: ShardingType = ShardingType.ROW_WISE) -> Layout:
    return (
        kind,
        ComputeKernel.FUSED,
        [(rank, rows, (0, table.embedding_dim)) for rank, rows in zip(ranks, blocks(table, len(ranks)), strict=True)],
    )


def column_wise(table: Table, ranks: list[int], kind: ShardingType = ShardingType.COLUMN_WISE) -> Layout:
    width = table.embedding_dim // len(ranks)
    return kind, ComputeKernel.FUSED, [(rank, (0, table.num_embeddings), (i * width, (i + 1) * width)) for i, rank in enumerate(ranks)]


def grid(table: Table, nodes: list[list[int]]) -> Layout:
    width = table.embedding_dim // len(nodes)
    parts = [
        (rank, rows, (i * width, (i + 1) * width))
        for i, ranks in enumerate(nodes)
        for rank, rows in zip(ranks, blocks(table, len(ranks)), strict=True)
    ]
    return ShardingType.GRID_SHARD, ComputeKernel.FUSED, parts


def data_parallel(table: Table, ranks: int) -> Layout:
    return (
        ShardingType.DATA_PARALLEL,
        ComputeKernel.DENSE,
        [(rank, (0, table.num_embeddings), (0, table.embedding_dim)) for rank in range(ranks)],
    )


def blocks(table: Table, count: int) -> list[tuple[int, int]]:
    """Even blocks of ceil(rows / count), as TorchRec cuts them."""
    size, rows = -(-table.num_embeddings // count), table.num_embeddings
    return [(min(i * size, rows), min((i + 1) * size, rows)) for i in range(count)]


def make_model(name: str = "small", **changes: Any) -> ModelSpec:
    """Five tables of different shape: shared, truncated, skewed, weighted by nothing."""
    data: dict[str, Any] = {
        "schema_version": 1,
        "name": name,
        "local_batch_size": 64,
        "dense_features": 8,
        "bottom_mlp": [32, 16],
        "top_mlp": [32, 1],
        "interaction": "dot",
        "optimizer": "rowwise_adagrad",
        "tables": [
            {
                "name": "user",
                "num_embeddings": 20011,
                "embedding_dim": 16,
                "access": {"zipf": 1.05},
                "features": [{"name": "user", "length": {"fixed": 1}}, {"name": "friends", "length": {"poisson": 3.0}}],
            },
            {
                "name": "item",
                "num_embeddings": 5000,
                "embedding_dim": 16,
                "access": {"zipf": 0.8},
                "features": [{"name": "clicks", "length": {"lognormal": {"mean": 8, "sigma": 1.0}}, "truncate": 20}],
            },
            {
                "name": "page",
                "num_embeddings": 30001,
                "embedding_dim": 16,
                "features": [{"name": "pages", "length": {"power_law": {"mean": 5, "alpha": 1.2, "max": 50}}}],
            },
            {"name": "country", "num_embeddings": 37, "embedding_dim": 16, "features": [{"name": "country", "length": {"fixed": 1}}]},
            {
                "name": "tag",
                "num_embeddings": 1000,
                "embedding_dim": 16,
                "features": [{"name": "tags", "length": {"histogram": {"lengths": [0, 2], "weights": [0.5, 0.5]}}}],
            },
        ],
    }
    return ModelSpec.model_validate(data | changes)


def mixed_layouts(model: ModelSpec) -> dict[str, Layout]:
    """Two ranks: table-wise, column-wise, row-wise and data-parallel side by side."""
    user, item, page, country, tag = model.tables
    return {
        "user": column_wise(user, [1, 0]),
        "item": table_wise(item, 0),
        "page": row_wise(page, [0, 1]),
        "country": data_parallel(country, 2),
        "tag": table_wise(tag, 1),
    }


def grid_layouts(model: ModelSpec) -> dict[str, Layout]:
    """Four ranks on two nodes: the sharding types that know nodes, and row-wise over all."""
    user, item, page, country, tag = model.tables
    return {
        "user": grid(user, [[2, 3], [0, 1]]),
        "item": row_wise(item, [2, 3], ShardingType.TABLE_ROW_WISE),
        "page": column_wise(page, [1, 0], ShardingType.TABLE_COLUMN_WISE),
        "country": row_wise(country, [0, 1, 2, 3]),
        "tag": data_parallel(tag, 4),
    }


def make_model_of_seven(name: str) -> ModelSpec:
    """With a table for each sharding type."""
    model = make_model(name)
    shop, query = (
        Table.model_validate(
            {"name": each, "num_embeddings": rows, "embedding_dim": 16, "features": [{"name": each, "length": {"poisson": 2.0}}]}
        )
        for each, rows in (("shop", 4001), ("query", 9000))
    )
    return model.model_copy(update={"tables": (*model.tables, shop, query)})


def every_layout(model: ModelSpec) -> dict[str, Layout]:
    """Four ranks on two nodes, seven tables of make_model_of_seven: every sharding type at once."""
    *others, shop, query = model.tables
    layouts = grid_layouts(model.model_copy(update={"tables": tuple(others)}))
    return layouts | {"shop": table_wise(shop, 2), "query": column_wise(query, [3, 0])}


def served_layouts(model: ModelSpec) -> dict[str, Layout]:
    """Two trainers (0, 1) and two remote servers (2, 3): tables on either side, cut into columns on either side."""
    user, item, page, country, tag = model.tables
    return {
        "user": column_wise(user, [3, 2]),
        "item": table_wise(item, 2),
        "page": table_wise(page, 3),
        "country": table_wise(country, 0),
        "tag": column_wise(tag, [0, 1]),
    }
