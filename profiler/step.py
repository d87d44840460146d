"""A whole training step under DistributedModelParallel: what the executor times, on models made for measuring."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torchrec.distributed.types import (
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ParameterSharding,
    ShardingPlan,
    ShardMetadata,
)

from placement.model import ShardingType
from placement.plan import TablePlacement
from profiler.batches import draw_batch
from profiler.module_path import MODULE_PATH
from profiler.points import StepPoint
from profiler.step_model import step_model, step_placements
from profiler.training import Training

_BATCHES = 6


class StepExercise:
    """All of a step is timed as `forward`; batches take turns."""

    def __init__(self, point: StepPoint, seed: int, device: torch.device) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        spec = step_model(point, ranks)
        tables = {placed.name: _sharding(placed, ranks, device) for placed in step_placements(point, ranks)}
        plan = ShardingPlan({MODULE_PATH: EmbeddingModuleShardingPlan(tables)})
        self._training = Training(spec, plan, device, trainers=ranks)
        self._batches = [draw_batch(spec, point.batch, seed, rank, number) for number in range(_BATCHES)]

    def prepare(self, repetition: int) -> None:
        self._batch = self._batches[repetition % _BATCHES].copy_to(self._training.device)

    def forward(self) -> None:
        self._training.step(self._batch)

    def backward(self) -> None:
        """Part of the step."""


def _sharding(placed: TablePlacement, ranks: int, device: torch.device) -> ParameterSharding:
    """As TorchRec's planner would give it."""
    kind, kernel = placed.sharding_type.value, placed.compute_kernel.value
    if placed.sharding_type is ShardingType.DATA_PARALLEL:
        return ParameterSharding(kind, kernel, ranks=list(range(ranks)), sharding_spec=None)
    shards = [
        ShardMetadata(
            shard_offsets=[shard.rows[0], shard.columns[0]],
            shard_sizes=[shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0]],
            placement=f"rank:{shard.rank}/{f'cuda:{shard.rank}' if device.type == 'cuda' else 'cpu'}",
        )
        for shard in placed.shards
    ]
    return ParameterSharding(kind, kernel, ranks=[shard.rank for shard in placed.shards], sharding_spec=EnumerableShardingSpec(shards))
