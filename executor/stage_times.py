"""Where a step's time goes: the stages of placement.stages, measured one by one in a pass of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torchrec.sparse.jagged_tensor import KeyedTensor

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
    """The identity. Once the gradients of all values are there, a stage of the backward has ended, which makes a lap."""

    @staticmethod
    def forward(ctx: Any, laps: _Laps, stage: Stage, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.laps, ctx.stage = laps, stage
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.laps.lap(ctx.stage)
        return None, None, *gradients


def _lap_in_backward(laps: _Laps, stage: Stage, values: Iterable[Tensor]) -> Iterator[Tensor]:
    return iter(_LapInBackward.apply(laps, stage, *values))  # type: ignore[no-untyped-call]


@contextmanager
def _without_reducing(collection: Any) -> Iterator[None]:
    """Replicated tables are looked up without their DistributedDataParallel wrapper, which would reduce in the backward."""
    wrapped = collection._lookups
    collection._lookups = [getattr(lookup, "module", lookup) for lookup in wrapped]
    try:
        yield
    finally:
        collection._lookups = wrapped


def _holders(looked_up: Iterable[Any]) -> list[Any]:
    """The KeyedTensors and JaggedTensors that collections put out: their `_values` are what a backward ends at."""
    return [each for out in looked_up for each in ([out] if isinstance(out, KeyedTensor) else out.values())]


def _staged_step(training: Training, batch: Batch) -> dict[Stage, float]:
    """Microseconds of each stage of one step."""
    dlrm: Any = training.dlrm
    laps = _Laps(training.device)
    for optimizer in training.optimizers:
        optimizer.zero_grad()
    laps.lap(Stage.DENSE)

    collections: list[Any] = dlrm.collections
    contexts = [collection.create_context() for collection in collections]
    local_ids = [
        collection.input_dist(context, ids).wait().wait()
        for collection, context, ids in zip(collections, contexts, dlrm.inputs(batch), strict=True)
    ]
    laps.lap(Stage.INPUT_DIST)
    parts = []
    for collection, context, ids in zip(collections, contexts, local_ids, strict=True):
        with _without_reducing(collection):
            parts.append(collection.compute(context, ids))
    timed = _lap_in_backward(laps, Stage.GRADIENT_DIST, chain.from_iterable(parts))
    parts = [list(islice(timed, len(part))) for part in parts]
    laps.lap(Stage.LOOKUP_FORWARD)
    looked_up = [
        collection.output_dist(context, part).wait() for collection, context, part in zip(collections, contexts, parts, strict=True)
    ]
    holders = _holders(looked_up)
    for holder, values in zip(holders, _lap_in_backward(laps, Stage.DENSE, [each.values() for each in holders]), strict=True):
        holder._values = values
    laps.lap(Stage.OUTPUT_DIST)
    loss = dlrm.loss(batch, looked_up) * training.loss_scale
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
