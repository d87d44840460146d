"""Trains under a plan, step by step with a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist

from executor.export import plan_topology, to_torchrec
from executor.sharding_plan import sharding_plan
from placement.plan import Plan
from profiler.clock import now_us
from profiler.dlrm import Batch
from profiler.training import Training


def training_of(plan: Plan, device: torch.device, **changes: Any) -> Training:
    """The model of `plan`, sharded exactly so; `changes` are arguments of Training."""
    trainers = len(plan_topology(plan).trainers)
    return Training(plan.question.model, sharding_plan(to_torchrec(plan)), device, trainers=trainers, **changes)


def timed_steps(training: Training, batches: Iterable[Batch], tell: Callable[[int], None]) -> list[float]:
    """Microseconds of each step. Steps start together, so the slowest rank's time is the step's."""
    times = []
    for number, batch in enumerate(batches):
        fresh = batch.copy_to(training.device)
        dist.barrier()
        start = now_us(training.device)
        training.step(fresh)
        times.append(now_us(training.device) - start)
        tell(number + 1)
    return times
