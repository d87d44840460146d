"""FBGEMM's lookups on one H100, in HBM, cached and over UVM: five forwards and backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.published.points import Point, data
from benchmarks.published.prediction import host_of, question_of
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.derived_loads import STAGES, derive_loads
from emplace.placement.model import ComputeKernel, ShardingType, Table
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.stack import Pace
from emplace.placement.stages import Stage

NAME, STACK = "h100_fbgemm_lookups", "torchrec-eager"
ITERATIONS = 100
DIRECTIONS = {"forward": Stage.LOOKUP_FORWARD, "backward": Stage.LOOKUP_BACKWARD}


def points() -> Iterator[Point]:
    """A forward and a backward of each row of the publication."""
    for row in data(NAME)["rows"]:
        question = _question(row)
        caches = dict.fromkeys(DIRECTIONS, _cache(row, question.model.tables[0]))
        if row["caching"]:
            caches["forward"] = _as_missed_as_cold(question.model.tables[0], row["batch_size"])
        for direction in DIRECTIONS:
            placements = tuple(_placements(row, caches[direction]))
            times_ms = (_lookups_ms(question, placements, pace)[direction] for pace in (Pace.TYPICAL, Pace.FAST, Pace.SLOW))
            what = f"{_kernel(row)}, {row['optimizer_type']}, {direction}"
            yield Point(NAME, what, STACK, row[f"trc_{direction}_ms"], *times_ms)


def _kernel(row: dict[str, Any]) -> ComputeKernel:
    if row["caching"]:
        return ComputeKernel.FUSED_UVM_CACHING
    return ComputeKernel.FUSED if "_gpu_" in row["label"] else ComputeKernel.FUSED_UVM


def _lookups_ms(question: Question, placements: tuple[TablePlacement, ...], pace: Pace) -> dict[str, float]:
    prices = datasheet_cost_model(question.host, question.cost_model.stack, pace)
    priced = question.model_copy(update={"cost_model": prices})
    (rank,) = derive_loads(priced, placements, priced.topology(with_servers=False)).stages_us
    return {direction: float(rank[STAGES.index(stage)]) / 1e3 for direction, stage in DIRECTIONS.items()}


def _question(row: dict[str, Any]) -> Question:
    tables = [
        {"name": name, "num_embeddings": row["num_embeddings_per_feature"], "embedding_dim": row["embedding_dim"]}
        | {"access": {"zipf": row["alpha"]}, "features": [{"name": name, "length": {"fixed": 1}}]}
        for name in _names(row)
    ]
    model = {"name": "lookups", "local_batch_size": row["batch_size"], "dense_features": 0, "bottom_mlp": [], "top_mlp": [1]}
    return question_of(
        model | {"interaction": "cat", "optimizer": row["optimizer_type"], "tables": tables}, host_of("dgx-h100", 1), STACK, gpus=1
    )


def _cache(row: dict[str, Any], table: Table) -> float | None:
    """The share of the rows that is cached: a share of the different ids of all iterations (the benchmark's `_per_table_unique_keys`)."""
    ratio = row["cache_footprint_ratio"]
    return None if ratio is None else float(ratio * _footprint(table, row["batch_size"]) / table.num_embeddings)


def _footprint(table: Table, ids: int) -> float:
    """Different ids of all iterations, each of so many."""
    return float(table.accesses.unique_rows([ITERATIONS * ids])[0])


def _as_missed_as_cold(table: Table, ids: int) -> float:
    """The share of the rows in a cache of which a steady step misses as many ids as this one does, which is empty when the benchmark
    begins: each id the first time."""
    shares = np.linspace(0.0, 1.0, 100_001)[1:]
    missed = _footprint(table, ids) / (ITERATIONS * ids)
    return float(np.interp(1.0 - missed, table.accesses.hit_rate(shares), shares))


def _placements(row: dict[str, Any], factor: float | None) -> Iterator[TablePlacement]:
    rows = row["num_embeddings_per_feature"]
    shard = Shard(rank=0, rows=(0, rows), columns=(0, row["embedding_dim"]), hbm_bytes=0, ddr_bytes=0)
    for name in _names(row):
        yield TablePlacement(
            name=name,
            sharding_type=ShardingType.TABLE_WISE,
            compute_kernel=_kernel(row),
            cache_load_factor=factor,
            shards=(shard,),
        )


def _names(row: dict[str, Any]) -> list[str]:
    return [f"t{n}" for n in range(row["num_tables"])]
