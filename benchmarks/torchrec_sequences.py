"""TorchRec's planner and Emplace's on DLRMv4's EmbeddingCollection: what each rank holds of its tables.

    python -m benchmarks.torchrec_sequences [--hbm-gib 260] [--ranks 8]

Both planners get the live module on the meta device, a topology and the ids an example of each feature; TorchRec's, at its defaults,
once more without these. One JSON line a planner: GiB of weights and row-wise state on each rank, and the largest over the mean.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ShardingPlan
from torchrec.modules.embedding_configs import EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingCollection

from benchmarks.json_lines import emit
from emplace.placement.catalog import builtin_model
from emplace.placement.memory import STATE_BYTES
from emplace.placement.model import ModelSpec
from emplace.torchrec import EmplaceShardingPlanner

MODEL = "dlrmv4"
_VALUE_BYTES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hbm-gib", type=int, default=260, help="device memory of each rank")
    parser.add_argument("--ranks", type=int, default=8)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    topology = Topology(
        world_size=arguments.ranks, local_world_size=arguments.ranks, compute_device="cuda", hbm_cap=arguments.hbm_gib * 2**30
    )
    for line in compared(topology):
        emit(line)


def compared(topology: Topology) -> list[dict[str, Any]]:
    """A line for each planner."""
    model = builtin_model(MODEL)
    lengths = constraints_of(model)
    planners: dict[str, Any] = {
        "torchrec": EmbeddingShardingPlanner(topology=topology, batch_size=model.local_batch_size, debug=False),
        "torchrec, with lengths": EmbeddingShardingPlanner(
            topology=topology, batch_size=model.local_batch_size, constraints=lengths, debug=False
        ),
        "emplace, with lengths": EmplaceShardingPlanner(
            topology=topology, batch_size=model.local_batch_size, constraints=lengths, stats=[], options={"work_limit": 1.0}
        ),
    }
    return [_line(name, planner, model, topology.world_size) for name, planner in planners.items()]


def constraints_of(model: ModelSpec) -> dict[str, ParameterConstraints]:
    """Ids an example of each table's features."""
    return {
        table.name: ParameterConstraints(pooling_factors=[feature.lengths.mean for feature in table.features]) for table in model.tables
    }


def module_of(model: ModelSpec) -> nn.Module:
    """The model's tables in one EmbeddingCollection on the meta device, at the path of its module."""
    tables = [
        EmbeddingConfig(
            name=table.name,
            num_embeddings=table.num_embeddings,
            embedding_dim=table.embedding_dim,
            feature_names=[feature.name for feature in table.features],
        )
        for table in model.tables
    ]
    return nn.ModuleDict({model.module_of(model.tables[0]).path: EmbeddingCollection(tables=tables, device=torch.device("meta"))})


def _line(name: str, planner: Any, model: ModelSpec, ranks: int) -> dict[str, Any]:
    sharder = EmbeddingCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD})
    start = time.perf_counter()
    plan = planner.plan(module_of(model), [sharder])
    seconds = time.perf_counter() - start
    held = held_bytes(plan, {table.name: (table.num_embeddings, table.embedding_dim) for table in model.tables}, ranks)
    kinds = {name: sharding.sharding_type for tables in _modules(plan) for name, sharding in tables.items()}
    gib = [round(each / 2**30, 1) for each in held.tolist()]
    return {"planner": name, "seconds": seconds, "gib": gib, "max_over_mean": float(held.max() / held.mean()), "sharding_types": kinds}


def held_bytes(plan: ShardingPlan, shapes: Mapping[str, tuple[int, int]], ranks: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """[ranks] weights, and row-wise state of tables that are not replicated."""
    held = np.zeros(ranks, np.int64)
    for tables in _modules(plan):
        for name, sharding in tables.items():
            if sharding.sharding_spec is None:
                held += shapes[name][0] * shapes[name][1] * _VALUE_BYTES
                continue
            for shard in sharding.sharding_spec.shards:
                rows, columns = shard.shard_sizes
                held[shard.placement.rank()] += rows * (columns * _VALUE_BYTES + STATE_BYTES)
    return held


def _modules(plan: ShardingPlan) -> list[EmbeddingModuleShardingPlan]:
    return [tables for tables in plan.plan.values() if isinstance(tables, EmbeddingModuleShardingPlan)]


if __name__ == "__main__":
    main()
