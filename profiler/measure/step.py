"""A whole training step under DistributedModelParallel: what the executor times, on models made for measuring."""

from __future__ import annotations

import torch
import torch.distributed as dist

from emplace.placement.memory import row_bytes
from emplace.placement.model import DataType
from emplace.profiler.design.point_models import step_model, step_placements
from emplace.profiler.design.points import StepPoint
from emplace.profiler.measure.exercise import batches_to_rotate
from emplace.runtime.batches import draw_batch
from emplace.runtime.sharding_plan import sharding_plan
from emplace.runtime.torchrec_json import MODULE_PATH, parameter_sharding
from emplace.runtime.training import Training


class StepExercise:
    """One step is timed as `forward`, all of it, and nothing as `backward`; batches take turns."""

    def __init__(self, point: StepPoint, seed: int, device: torch.device) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        spec = step_model(point, ranks)
        devices = [f"cuda:{of_rank}" if device.type == "cuda" else "cpu" for of_rank in range(ranks)]
        tables = {placed.name: parameter_sharding(placed, devices) for placed in step_placements(point, ranks)}
        self._training = Training(spec, sharding_plan({MODULE_PATH: tables}), device, trainers=ranks)
        self._batches = [draw_batch(spec, point.batch, seed, rank, number) for number in range(_batches(point))]

    def prepare(self, repetition: int) -> None:
        self._batch = self._batches[repetition % len(self._batches)].copy_to(self._training.device)

    def forward(self) -> None:
        self._training.step(self._batch)

    def backward(self) -> None:
        """Nothing: the step has its backward inside."""


def _batches(point: StepPoint) -> int:
    touched_bytes = len(point.types) * point.tables * point.batch * point.lookups_per_bag * row_bytes(DataType.FP32, point.columns)
    return batches_to_rotate(float(touched_bytes))
