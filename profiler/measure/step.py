"""A whole training step under DistributedModelParallel: what the executor times, on models made for measuring."""

from __future__ import annotations

import torch
import torch.distributed as dist

from emplace.placement.memory import row_bytes
from emplace.placement.model import DataType
from emplace.profiler.design.point_models import step_model, step_placements
from emplace.profiler.design.points import StepPoint
from emplace.profiler.measure.exercise import batches_to_rotate
from emplace.runtime.repeated_step import RepeatedStep


def step_exercise(point: StepPoint, seed: int, device: torch.device) -> RepeatedStep:
    """A point's step, timed as `forward`, all of it, and nothing as `backward`."""
    ranks = dist.get_world_size()
    return RepeatedStep(step_model(point, ranks), step_placements(point, ranks), _batches(point), seed, device)


def _batches(point: StepPoint) -> int:
    touched_bytes = len(point.types) * point.tables * point.batch * point.lookups_per_bag * row_bytes(DataType.FP32, point.columns)
    return batches_to_rotate(float(touched_bytes))
