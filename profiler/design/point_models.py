"""The models of dense and step points, where a step's tables are, and how large a replicated parameter is.

Imports no torch: the fit prices what ranks ran.
"""

from __future__ import annotations

from typing import Any

from emplace.placement.layout import COLUMN_MULTIPLE
from emplace.placement.model import ComputeKernel, Feature, Interaction, ModelSpec, Optimizer, ShardingType, Table
from emplace.placement.plan import Shard, TablePlacement
from emplace.placement.workload import ID_BYTES, LENGTH_BYTES, OUTPUT_BYTES
from emplace.profiler.design.points import DensePoint, StepPoint

_DENSE_FEATURES = 13
REPLICA_COLUMNS = 64
"""Columns of the table that stands for replicated parameters: a common width."""
FEATURES_OF_A_RANK = 4
"""How many features' ids go to each rank in the exchange of ids."""
PIECES = 24
"""How many pieces of pooled vectors each example has in the permutation."""
_SPREAD = 0.7
"""The sigma of lognormal feature lengths: with it ranks get different batches, and wait for each other as in training."""


def dense_model(point: DensePoint) -> ModelSpec:
    """The model with the point's dense layers. Its tables have one row: they are never looked up."""
    return ModelSpec(
        schema_version=1,
        name="dense",
        local_batch_size=point.batch,
        dense_features=_DENSE_FEATURES,
        bottom_mlp=(*point.bottom, point.columns),
        top_mlp=(*point.top, 1),
        interaction=point.interaction,
        optimizer=Optimizer.SGD,
        tables=tuple(
            Table(name=f"t{n}", num_embeddings=1, embedding_dim=point.columns, features=(Feature(name=f"f{n}", length={"fixed": 1}),))
            for n in range(point.features)
        ),
    )


def step_model(point: StepPoint, ranks: int) -> ModelSpec:
    """The model of a whole step, its tables in the order of the point's types."""
    return ModelSpec(
        schema_version=1,
        name="step",
        local_batch_size=point.batch,
        dense_features=_DENSE_FEATURES,
        bottom_mlp=(point.width, point.columns),
        top_mlp=(*[point.width] * (1 + point.depth), max(8, point.width // 2), 1),
        interaction=Interaction.CAT,
        optimizer=Optimizer.ROWWISE_ADAGRAD,
        tables=tuple(
            Table(
                name=name,
                num_embeddings=_even(point.rows, ranks),
                embedding_dim=point.columns,
                features=(Feature(name=f"f_{name}", length=_length(point.lookups_per_bag)),),
            )
            for name, _, _ in _tables(point, ranks)
        ),
    )


def _length(mean: int) -> dict[str, Any]:
    return {"fixed": 1} if mean == 1 else {"lognormal": {"mean": mean, "sigma": _SPREAD}}


def step_placements(point: StepPoint, ranks: int) -> tuple[TablePlacement, ...]:
    """Where the tables of `step_model` are, on `ranks` ranks of one node."""
    rows = _even(point.rows, ranks)
    return tuple(_placement(name, kind, number, rows, point.columns, ranks) for name, kind, number in _tables(point, ranks))


def _tables(point: StepPoint, ranks: int) -> list[tuple[str, ShardingType, int]]:
    """(name, sharding type, number within its type) of each table."""
    counts = {kind: point.tables * (ranks if kind is ShardingType.TABLE_WISE else 1) for kind in point.types}
    return [(f"{kind}_{number}", kind, number) for kind, count in counts.items() for number in range(count)]


def replica_rows(sent_bytes: int, ranks: int) -> int:
    """Rows of the replicated parameter of whose gradient each rank sends so many bytes.

    In a ring it sends 2 (ranks - 1) / ranks of it, as placement.workload counts. A rank alone sends nothing: there the bytes are the
    gradient's own.
    """
    gradient_bytes = sent_bytes * ranks // (2 * (ranks - 1)) if ranks > 1 else sent_bytes
    return max(1, gradient_bytes // (REPLICA_COLUMNS * OUTPUT_BYTES))


def exchanged_examples(sent_bytes: int, ids_per_bag: int, ranks: int) -> int:
    """Examples of a rank that sends so many bytes of ids and lengths to the others."""
    return max(1, sent_bytes // (FEATURES_OF_A_RANK * (ranks - 1) * (ids_per_bag * ID_BYTES + LENGTH_BYTES)))


def permuted_examples(permuted_bytes: int, columns: int) -> int:
    """Examples whose pieces, of so many columns each, have so many bytes together."""
    return max(1, permuted_bytes // (PIECES * columns * OUTPUT_BYTES))


def _even(rows: int, ranks: int) -> int:
    """`rows` rounded up to a multiple of `ranks`."""
    return -(-rows // ranks) * ranks


def _placement(name: str, kind: ShardingType, number: int, rows: int, columns: int, ranks: int) -> TablePlacement:
    parts: list[tuple[int, tuple[int, int], tuple[int, int]]]
    match kind:
        case ShardingType.TABLE_WISE:
            parts = [(number % ranks, (0, rows), (0, columns))]
        case ShardingType.COLUMN_WISE | ShardingType.TABLE_COLUMN_WISE:
            pieces = max(count for count in range(1, ranks + 1) if columns % (COLUMN_MULTIPLE * count) == 0)
            width = columns // pieces
            parts = [((number + piece) % ranks, (0, rows), (piece * width, (piece + 1) * width)) for piece in range(pieces)]
        case ShardingType.DATA_PARALLEL:
            parts = [(rank, (0, rows), (0, columns)) for rank in range(ranks)]
        case _:
            block = rows // ranks
            parts = [(rank, (rank * block, (rank + 1) * block), (0, columns)) for rank in range(ranks)]
    kernel = ComputeKernel.DENSE if kind is ShardingType.DATA_PARALLEL else ComputeKernel.FUSED
    shards = tuple(Shard(rank=rank, rows=rows, columns=columns, hbm_bytes=0, ddr_bytes=0) for rank, rows, columns in parts)
    return TablePlacement(name=name, sharding_type=kind, compute_kernel=kernel, shards=shards)
