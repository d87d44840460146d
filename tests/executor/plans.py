"""Hand-made plans for executor tests: the caller places the tables, placement's formulas give bytes and times."""

from __future__ import annotations

from typing import Any

import numpy as np

from placement.cost_model import CostModel, datasheet_cost_model
from placement.host import DeviceType, HostSpec
from placement.memory import rank_bytes, row_bytes, shard_bytes
from placement.model import ComputeKernel, ModelSpec, ShardingType, Table
from placement.plan import (
    CostModelReference,
    ModelReference,
    NodeLoad,
    Plan,
    PlanOptions,
    PlanStatus,
    Question,
    RankLoad,
    Shard,
    SolverRecord,
    TablePlacement,
)
from placement.stages import Stage, rank_stages_us, shard_stages_us
from placement.topology import Topology, build_topology
from placement.workload import model_loads, shard_workload

Layout = tuple[ShardingType, ComputeKernel, list[tuple[int, tuple[int, int], tuple[int, int]]]]
"""Sharding type, kernel, and (rank, rows, columns) of every shard."""


def build_plan(
    model: ModelSpec, host: HostSpec, layouts: dict[str, Layout], *, ranks: int, nodes: int = 1, cost: CostModel | None = None
) -> Plan:
    """A complete plan document, as a solver would have written it."""
    cost = cost or datasheet_cost_model(host)
    topology = build_topology(host, nodes, ranks, with_servers=False)
    loads = model_loads(model, topology, PlanOptions().objective)
    times = np.zeros((ranks, len(Stage)))
    base = rank_stages_us(cost, model, topology)
    times += [base.get(stage, 0.0) for stage in Stage]
    held = np.full(ranks, rank_bytes(model, loads, is_server=False))
    tables = []
    for table, load in zip(model.tables, loads, strict=True):
        kind, kernel, parts = layouts[table.name]
        shards = []
        for rank, rows, columns in parts:
            width, height = columns[1] - columns[0], rows[1] - rows[0]
            work = shard_workload(load, kind, height / table.num_embeddings, width, topology, on_server=False)
            device = topology.ranks[rank].device
            size = row_bytes(table.data_type, width)
            stages = shard_stages_us(cost, device, kernel, kind, work, row_bytes=size, columns=width, weight_bytes=height * size)
            times[rank] += [float(stages.get(stage, 0.0)) for stage in Stage]
            _, ddr = shard_bytes(
                kernel, table.data_type, model.optimizer, height, width, work.peak_ids, work.bags, on_cuda=_is_cuda(topology, rank)
            )
            held[rank] += int(ddr)
            shards.append(Shard(rank=rank, rows=rows, columns=columns, hbm_bytes=0, ddr_bytes=int(ddr)))
        tables.append(TablePlacement(name=table.name, sharding_type=kind, compute_kernel=kernel, shards=tuple(shards)))
    step = cost.step_overhead_us + float(times.max(axis=0).sum())
    return Plan(
        model=ModelReference(name=model.name, digest=model.content_digest()),
        host=ModelReference(name=host.name, digest=host.content_digest()),
        cost_model=CostModelReference(source=cost.source, digest=cost.content_digest()),
        status=PlanStatus.FEASIBLE,
        gap=0.5,
        step_time_us=step,
        lower_bound_us=step / 2,
        throughput_samples_per_s=model.local_batch_size * ranks / step * 1e6,
        imbalance=float(times.sum(axis=1).max() / times.sum(axis=1).mean()),
        ranks=tuple(
            RankLoad(
                rank=r.rank,
                node=r.node,
                device=r.device,
                hbm_bytes=0,
                hbm_capacity_bytes=0,
                ddr_bytes=int(held[r.rank]),
                step_time_us=float(times[r.rank].sum()),
                stages_us=dict(zip(Stage, times[r.rank].tolist(), strict=True)),
            )
            for r in topology.ranks
        ),
        nodes=tuple(
            NodeLoad(node=n, ddr_bytes=int(held[n * ranks // nodes : (n + 1) * ranks // nodes].sum()), ddr_capacity_bytes=capacity)
            for n, capacity in enumerate(topology.node_ddr_capacity_bytes)
        ),
        tables=tuple(tables),
        solver=SolverRecord(seconds=0.0, seed=0, limit=10.0, stopped_by="limit", bound="none", version="by hand"),
        question=Question(model=model, host=host, cost_model=cost, options=PlanOptions(nodes=nodes, ranks=ranks)),
    )


def _is_cuda(topology: Topology, rank: int) -> bool:
    return topology.ranks[rank].type is DeviceType.CUDA


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
