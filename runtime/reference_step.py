"""The reference step: one training step, always the same, that tells how fast the machine is now.

The profiler times it between the steps that it measures, the executor between parts of training, so that a machine that is slower
than usual is told from prices that are wrong.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from emplace.placement.model import ComputeKernel, Feature, Interaction, ModelSpec, Optimizer, ShardingType, Table
from emplace.placement.plan import Shard, TablePlacement
from emplace.runtime.repeated_step import RepeatedStep

_TABLES_OF_A_RANK, _ROWS, _COLUMNS = 2, 100_000, 64
_BATCHES = 32
"""They take turns, so that no step finds its rows in a cache because the one before had them."""


def reference_step(seed: int, device: torch.device) -> RepeatedStep:
    """The reference step of all ranks; each builds it at the same time."""
    ranks = dist.get_world_size()
    spec = reference_model(ranks)
    placements = (_placement(table.name, number % ranks) for number, table in enumerate(spec.tables))
    return RepeatedStep(spec, placements, _BATCHES, seed, device)


def reference_model(ranks: int) -> ModelSpec:
    """Takes a few milliseconds; feature lengths vary, so that ranks wait for each other as in training."""
    return ModelSpec(
        schema_version=1,
        name="reference",
        local_batch_size=256,
        dense_features=13,
        bottom_mlp=(256, _COLUMNS),
        top_mlp=(256, 128, 1),
        interaction=Interaction.CAT,
        optimizer=Optimizer.ROWWISE_ADAGRAD,
        tables=tuple(
            Table(
                name=f"t{number}",
                num_embeddings=_ROWS,
                embedding_dim=_COLUMNS,
                features=(Feature(name=f"f{number}", length={"lognormal": {"mean": 8, "sigma": 0.7}}),),
            )
            for number in range(_TABLES_OF_A_RANK * ranks)
        ),
    )


def _placement(name: str, rank: int) -> TablePlacement:
    shard = Shard(rank=rank, rows=(0, _ROWS), columns=(0, _COLUMNS), hbm_bytes=0, ddr_bytes=0)
    return TablePlacement(name=name, sharding_type=ShardingType.TABLE_WISE, compute_kernel=ComputeKernel.FUSED, shards=(shard,))
