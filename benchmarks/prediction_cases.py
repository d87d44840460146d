"""Random models, from overhead-bound to memory-bound, and different plans for each, to hold predictions against.

Drawn with a seed: the same seed, the same models and plans. Shapes follow the ranges of Acun et al. (HPCA 2021, doi
10.1109/HPCA51647.2021.00072), rows and batches scaled down so that every model trains on a machine with two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.hand_placements import Placements, column_pieces, replicas, row_blocks, whole_table
from emplace.placement.model import ModelSpec, ShardingType, Table
from emplace.placement.plan import TablePlacement

OURS = "emplace"
"""Emplace's own plan, beside those that are drawn here."""
LAUNCHES = 2
"""How many launches every plan has; plans about as fast as the fastest have as many again."""
_TABLE_BYTES = 1_500_000_000
"""The most bytes of all tables of one model: all plans for it are in memory at once."""
_LOOKUPS = 150_000
"""The most lookups of a step, of all ranks together."""
_REPLICATED_BYTES = 4_000_000
"""The largest table that the style `small tables everywhere` replicates."""
_DIMS = (8, 16, 32, 64, 128)


def draw_model(rng: np.random.Generator, name: str, ranks: int) -> ModelSpec:
    """Tables, batch and dense layers drawn independently, so that any part may dominate the step."""
    count = round(float(np.exp(rng.uniform(np.log(4), np.log(40)))))
    batch = round(float(np.exp(rng.uniform(np.log(64), np.log(1024)))))
    dims = _dims(rng, count)
    rows = np.exp(rng.normal(rng.uniform(np.log(2e3), np.log(3e5)), rng.uniform(0.3, 1.8), count)).clip(50, 4e6)
    rows *= min(1.0, _TABLE_BYTES / float((rows * dims * 4).sum()))
    lengths = np.exp(rng.normal(rng.uniform(0.0, np.log(30)), rng.uniform(0.2, 1.2), count)).clip(1, 100)
    lengths = np.maximum(1.0, lengths * min(1.0, _LOOKUPS / (lengths.sum() * batch * ranks)))
    width = int(rng.choice([16, 64, 256, 1024], p=[0.3, 0.3, 0.25, 0.15]))
    return ModelSpec.model_validate(
        {
            "schema_version": 1,
            "name": name,
            "local_batch_size": batch,
            "dense_features": 13,
            "bottom_mlp": [width, int(dims[0])],
            "top_mlp": [width, max(8, width // 2), 1],
            "interaction": "dot" if len(set(dims.tolist())) == 1 and rng.random() < 0.5 else "cat",
            "optimizer": str(rng.choice(["rowwise_adagrad", "adagrad", "sgd"], p=[0.6, 0.2, 0.2])),
            "tables": [_table(rng, f"t{n}", int(rows[n]), int(dims[n]), round(float(lengths[n]), 2)) for n in range(count)],
        }
    )


def _dims(rng: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """One width for all tables, or one each."""
    if rng.random() < 0.5:
        return np.full(count, rng.choice(_DIMS))
    return rng.choice(_DIMS, count)


def _table(rng: np.random.Generator, name: str, rows: int, dim: int, length: float) -> dict[str, Any]:
    skew = float(rng.choice([0.0, 0.8, 1.05, 1.2], p=[0.4, 0.2, 0.2, 0.2]))
    spread = {"fixed": 1} if length == 1 else {"lognormal": {"mean": length, "sigma": 0.8}}
    return {
        "name": name,
        "num_embeddings": max(50, rows),
        "embedding_dim": dim,
        "access": {"zipf": skew} if skew else "uniform",
        "features": [{"name": f"f_{name}", "length": spread}],
    }


Style = Callable[[np.random.Generator, ModelSpec, int], Placements]


def draw_plans(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Iterator[tuple[str, Placements]]:
    """Plans as people make them by hand, some of them poor: what is predicted must not depend on how good a plan is."""
    for name, style in _STYLES.items():
        yield name, style(rng, model, ranks)


def _whole_by_bytes(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Placements:
    """table_wise, the largest table first to the emptiest rank: a common heuristic."""
    del rng
    held, rank_of = [0.0] * ranks, dict[str, int]()
    for table in sorted(model.tables, key=lambda one: -one.num_embeddings * one.embedding_dim):
        rank = int(np.argmin(held))
        held[rank] += table.num_embeddings * table.embedding_dim
        rank_of[table.name] = rank
    return tuple(whole_table(table, rank_of[table.name]) for table in model.tables)


def _whole_anywhere(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Placements:
    return tuple(whole_table(table, int(rng.integers(ranks))) for table in model.tables)


def _all_columns(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Placements:
    return tuple(column_pieces(table, rng.permutation(ranks).tolist()) for table in model.tables)


def _all_rows(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Placements:
    del rng
    return tuple(row_blocks(table, ranks, ShardingType.ROW_WISE) for table in model.tables)


def _small_everywhere(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Placements:
    """data_parallel for small tables, the others whole."""
    whole = _whole_by_bytes(rng, model, ranks)
    small = [table.num_embeddings * table.embedding_dim * 4 <= _REPLICATED_BYTES for table in model.tables]
    return tuple(replicas(table, ranks) if one else other for table, one, other in zip(model.tables, small, whole, strict=True))


def _mixed(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Placements:
    """Every table its own sharding type."""
    return tuple(_any(rng, table, ranks) for table in model.tables)


def _any(rng: np.random.Generator, table: Table, ranks: int) -> TablePlacement:
    small = table.num_embeddings * table.embedding_dim * 4 <= _REPLICATED_BYTES
    kinds = [kind for kind in ShardingType if kind is not ShardingType.DATA_PARALLEL or small]
    match kinds[int(rng.integers(len(kinds)))]:
        case ShardingType.TABLE_WISE:
            return whole_table(table, int(rng.integers(ranks)))
        case ShardingType.COLUMN_WISE | ShardingType.TABLE_COLUMN_WISE as kind:
            return column_pieces(table, rng.permutation(ranks)[: int(rng.integers(2, ranks + 1))].tolist(), kind)
        case ShardingType.DATA_PARALLEL:
            return replicas(table, ranks)
        case kind:
            return row_blocks(table, ranks, kind)


_STYLES: dict[str, Style] = {
    "whole tables by bytes": _whole_by_bytes,
    "whole tables anywhere": _whole_anywhere,
    "all column-wise": _all_columns,
    "all row-wise": _all_rows,
    "small tables everywhere": _small_everywhere,
    "every type": _mixed,
}
