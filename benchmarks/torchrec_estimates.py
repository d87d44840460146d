"""A benchmark case as TorchRec sees it: the module, the topology, and every sharding option with TorchRec's own estimates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption
from torchrec.distributed.types import CacheParams
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

COLUMN_WIDTHS = (64, 32, 16)
"""Widths of column-wise shards that are enumerated beside TorchRec's default (128)."""
CACHE_LOAD_FACTORS = (0.05, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Cache load factors that are enumerated beside TorchRec's default (0.2)."""


@dataclass(frozen=True)
class PlannerCase:
    """One `CASE.json` of the interface: bytes are per rank, the batch too."""

    name: str
    tables: tuple[dict[str, Any], ...]
    topology: dict[str, int]
    reserve: float

    @staticmethod
    def read(path: Path) -> PlannerCase:
        data = json.loads(path.read_text())
        return PlannerCase(data["case"], tuple(data["tables"]), data["topology"], data["reserve"])


def module_of(case: PlannerCase) -> EmbeddingBagCollection:
    """The tables on the meta device, one feature each."""
    return EmbeddingBagCollection(
        device="meta",
        tables=[
            EmbeddingBagConfig(
                name=table["name"], num_embeddings=table["rows"], embedding_dim=table["dim"], feature_names=[f"feature_{table['name']}"]
            )
            for table in case.tables
        ],
    )


def topology_of(case: PlannerCase) -> Topology:
    return Topology(
        world_size=case.topology["world_size"],
        local_world_size=case.topology["local_world_size"],
        compute_device="cuda",
        hbm_cap=case.topology["hbm_cap"],
        ddr_cap=case.topology["ddr_cap"],
        ssd_cap=case.topology["ssd_cap"],
    )


def planner_of(case: PlannerCase) -> EmbeddingShardingPlanner:
    """TorchRec's planner at its defaults."""
    return EmbeddingShardingPlanner(
        topology=topology_of(case),
        batch_size=case.topology["batch"],
        constraints=_constraints(case),
        storage_reservation=FixedPercentageStorageReservation(percentage=case.reserve),
    )


def enumerate_options(case: PlannerCase, module: EmbeddingBagCollection, *, variants: bool) -> list[ShardingOption]:
    """What TorchRec's enumerator offers by default and, with `variants`, under constraints that its users may set too:
    narrower column shards, grid_shard on several nodes, and other cache load factors where there is system memory."""
    options = _enumerate(case, module, _constraints(case))
    if not variants:
        return options
    widest = max(table["dim"] for table in case.tables)
    several_nodes = case.topology["world_size"] > case.topology["local_world_size"]
    by_column = ["column_wise", "grid_shard"] if several_nodes else ["column_wise"]
    for width in (width for width in COLUMN_WIDTHS if width < widest):
        options += _enumerate(case, module, _constraints(case, sharding_types=by_column, min_partition=width))
    if case.topology["ddr_cap"]:
        for load_factor in CACHE_LOAD_FACTORS:
            cached = CacheParams(load_factor=load_factor)
            options += _enumerate(case, module, _constraints(case, compute_kernels=["fused_uvm_caching"], cache_params=cached))
    return options


def _constraints(case: PlannerCase, **limits: Any) -> dict[str, ParameterConstraints]:
    return {table["name"]: ParameterConstraints(pooling_factors=[table["pooling"]], **limits) for table in case.tables}


def _enumerate(case: PlannerCase, module: EmbeddingBagCollection, constraints: dict[str, ParameterConstraints]) -> list[ShardingOption]:
    enumerator = EmbeddingEnumerator(topology=topology_of(case), batch_size=case.topology["batch"], constraints=constraints)
    return list(enumerator.enumerate(module, [EmbeddingBagCollectionSharder()]))
