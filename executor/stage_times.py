"""Where a step's time goes: the stages of placement.stages, measured one by one in a pass of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from emplace.placement.stages import Stage
from emplace.runtime.clock import now_us
from emplace.runtime.dlrm import Batch
from emplace.runtime.training import Training


def staged_steps(training: Training, batches: Iterable[Batch]) -> dict[Stage, float]:
    """Median microseconds of each stage over `batches`.

    The same work as a real step, but nothing overlaps: gradients are reduced after the whole backward instead of during it.
    A stage ends when its collective does, so the wait for the slowest rank is inside it.
    """
    times: dict[Stage, list[float]] = defaultdict(list)
    for batch in batches:
        fresh = batch.copy_to(training.device)
        dist.barrier()
        for stage, spent in _staged_step(training, fresh).items():
            times[stage].append(spent)
    return {stage: median(spent) for stage, spent in times.items()}


class _Laps:
    """A stopwatch: each lap adds the time since the last one to a stage."""

    def __init__(self, device: torch.device) -> None:
        self.spent: dict[Stage, float] = defaultdict(float)
        self._device = device
        self._last = now_us(device)

    def lap(self, stage: Stage) -> None:
        now = now_us(self._device)
        self.spent[stage] += now - self._last
        self._last = now


class _LapInBackward(torch.autograd.Function):
    """The identity. Its gradient arrives when a stage of the backward has ended, and makes a lap then."""

    @staticmethod
    def forward(ctx: Any, laps: _Laps, stage: Stage, value: Tensor) -> Tensor:
        ctx.laps, ctx.stage = laps, stage
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.laps.lap(ctx.stage)
        return None, None, gradient


def _lap_in_backward(laps: _Laps, stage: Stage, value: Tensor) -> Tensor:
    return _LapInBackward.apply(laps, stage, value)  # type: ignore[no-any-return, no-untyped-call]


def _staged_step(training: Training, batch: Batch) -> dict[Stage, float]:
    """Microseconds of each stage of one step."""
    dlrm: Any = training.dlrm
    laps = _Laps(training.device)
    for optimizer in training.optimizers:
        optimizer.zero_grad()
    laps.lap(Stage.DENSE)

    context = dlrm.ebc.create_context()
    local_ids = dlrm.ebc.input_dist(context, batch.sparse).wait().wait()
    laps.lap(Stage.INPUT_DIST)
    # Replicated tables are looked up without their DistributedDataParallel wrapper, which would reduce in the backward.
    lookups = [getattr(lookup, "module", lookup) for lookup in dlrm.ebc._lookups]
    looked_up = [lookup(ids) for lookup, ids in zip(lookups, local_ids, strict=True)]
    looked_up = [_lap_in_backward(laps, Stage.GRADIENT_DIST, part) for part in looked_up]
    laps.lap(Stage.LOOKUP_FORWARD)
    pooled = dlrm.ebc.output_dist(context, looked_up).wait()
    pooled._values = _lap_in_backward(laps, Stage.DENSE, pooled.values())
    laps.lap(Stage.OUTPUT_DIST)
    loss = dlrm.loss(batch, pooled) * training.loss_scale
    loss.backward()
    laps.lap(Stage.LOOKUP_BACKWARD)
    _reduce_gradients(training)
    for optimizer in training.optimizers:
        optimizer.step()
    laps.lap(Stage.ALL_REDUCE)
    return laps.spent


def _reduce_gradients(training: Training) -> None:
    """One all-reduce over everything that is replicated, as DistributedDataParallel's buckets are."""
    replicated = [parameter.grad for parameter in training.replicated if parameter.grad is not None]
    if dist.get_world_size() == 1 or not replicated:
        return
    flat = torch.cat([gradient.reshape(-1) for gradient in replicated])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    start = 0
    for gradient in replicated:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
