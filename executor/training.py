"""Training under a plan, with a clock at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist

from emplace.executor.export import module_shardings, plan_topology
from emplace.placement.model import Optimizer
from emplace.placement.plan import Plan
from emplace.runtime.clock import now_us
from emplace.runtime.dlrm import LEARNING_RATE, Batch
from emplace.runtime.sharding_plan import sharding_plan
from emplace.runtime.training import Training


def training_of(
    plan: Plan,
    device: torch.device,
    *,
    optimizer: Optimizer | None = None,
    sparse_rate: float = LEARNING_RATE,
    dense_rate: float = LEARNING_RATE,
) -> Training:
    """The model of `plan`, sharded exactly so. `optimizer` stands in for the model's."""
    return Training(
        plan.question.model,
        sharding_plan(module_shardings(plan)),
        device,
        trainers=len(plan_topology(plan).trainers),
        optimizer=optimizer,
        sparse_rate=sparse_rate,
        dense_rate=dense_rate,
    )


def timed_steps(training: Training, batches: Iterable[Batch], tell: Callable[[int], None]) -> list[float]:
    """Microseconds of each step on this rank. All ranks start a step together, so it lasts as long as its slowest rank.

    `tell` is called with the number of steps done.
    """
    times = []
    for number, batch in enumerate(batches):
        fresh = batch.copy_to(training.device)
        dist.barrier()
        start = now_us(training.device)
        training.step(fresh)
        times.append(now_us(training.device) - start)
        tell(number + 1)
    return times
