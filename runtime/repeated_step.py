"""A training step that is timed again and again: a model in training, and batches that take turns."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch
import torch.distributed as dist

from emplace.placement.model import ModelSpec
from emplace.placement.modules import DEFAULT_PATH
from emplace.placement.plan import TablePlacement
from emplace.runtime.batches import draw_batch
from emplace.runtime.clock import now_us
from emplace.runtime.sharding_plan import sharding_plan
from emplace.runtime.torchrec_json import parameter_sharding
from emplace.runtime.training import Training

STEPS_TOGETHER = 6
"""Steps of a visit, taken in a row. The first finds other data in the caches and does not count."""


class RepeatedStep:
    """Every rank builds one at the same time and takes its steps with all others."""

    def __init__(self, spec: ModelSpec, placements: Iterable[TablePlacement], batches: int, seed: int, device: torch.device) -> None:
        """Its `batches` are drawn once."""
        rank, ranks = dist.get_rank(), dist.get_world_size()
        devices = [f"cuda:{of_rank}" if device.type == "cuda" else "cpu" for of_rank in range(ranks)]
        tables = {placed.name: parameter_sharding(placed, devices) for placed in placements}
        self._training = Training(spec, sharding_plan({DEFAULT_PATH: tables}), device, trainers=ranks)
        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            self._batches = list(threads.map(lambda number: draw_batch(spec, spec.local_batch_size, seed, rank, number), range(batches)))

    def prepare(self, repetition: int) -> None:
        """Bring the batch whose turn it is to the device."""
        self._batch = self._batches[repetition % len(self._batches)].copy_to(self._training.device)

    def forward(self) -> None:
        """The whole step."""
        self._training.step(self._batch)

    def backward(self) -> None:
        """Nothing: the step has its backward inside."""


class Step(Protocol):
    """What is timed: prepared outside the clock, then taken."""

    def prepare(self, repetition: int) -> None: ...

    def forward(self) -> None: ...


def visit_us(step: Step, visit: int, device: torch.device) -> list[float]:
    """Microseconds of the steps of one visit on this rank. All ranks start a step together; every visit goes on with other batches."""
    times = []
    for number in range(STEPS_TOGETHER):
        step.prepare(visit * STEPS_TOGETHER + number)
        dist.barrier()
        start = now_us(device)
        step.forward()
        times.append(now_us(device) - start)
    return times[1:]
