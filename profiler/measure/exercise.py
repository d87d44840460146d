"""What every microbenchmark is: something with a forward and a backward that can be timed again and again.

Points are timed in rounds: each in turn, forward and backward, again and again. Before either the core's own caches are filled
with something else, as the rest of a step would, forward never follows forward, and every visit brings another batch. What a rank
computes on its own follows the reference of its kind, always the same: neither data nor code is warm, or cold, because of what else
happens to be in the round.
All ranks do the same at the same time, so what they take from each other is in the figures.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist

from emplace.profiler.design.points import Kind
from emplace.runtime.between_ranks import largest_of_ranks
from emplace.runtime.clock import now_us, passed_us, worked_us
from emplace.runtime.repeated_step import visit_us

_MIN_REPETITIONS, _MAX_REPETITIONS = 4, 40

_FEWEST_BATCHES, _MOST_BATCHES = 6, 32
_ROTATED_BYTES = 2**27
"""More than the caches that cores share."""


def batches_to_rotate(touched_bytes: float) -> int:
    """How many batches take turns, where each touches so many bytes of rows.

    In training the next batch asks for other rows. So the rows of an earlier visit must have left the caches by the time that their
    batch comes again, unless many batches ask for them.
    """
    return int(min(max(_ROTATED_BYTES / max(touched_bytes, 1.0), _FEWEST_BATCHES), _MOST_BATCHES))


class Exercise(Protocol):
    """One point, built on this rank. All ranks build the same one."""

    def prepare(self, repetition: int) -> None:
        """Untimed: pick the batch, drop what the last repetition left."""

    def forward(self) -> None: ...

    def backward(self) -> None: ...


Timings = tuple[list[float], list[float]]
"""Microseconds of every repetition: forward, backward."""
_Visit = Callable[[Exercise, int, torch.device], Timings]
_Stopwatch = Callable[[Callable[[], None], torch.device], float]


def time_round(exercises: Sequence[Exercise], reference: Exercise, kind: Kind, round_s: float, device: torch.device) -> list[Timings]:
    """The timings of each exercise, and last those of the reference.

    All are repeated as often as `round_s` seconds allow on the slowest rank, after one repetition that does not count. Whole steps
    follow each other as in training, several of one exercise at a time with nothing in between, the first of them not counted.
    Where a rank computes on its own, the time that it works counts, whoever else has its core, and on CUDA the time that its device
    works; where ranks do something together, the time that passes.
    """
    visit = _VISITS[kind]
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            start = now_us(device)
            _repeat(exercises, reference, 0, visit, device)
        elapsed_s = largest_of_ranks(now_us(device) - start) / 1e6
        repetitions = int(min(max(round_s / elapsed_s, _MIN_REPETITIONS), _MAX_REPETITIONS))
        rounds = [_repeat(exercises, reference, 1 + repetition, visit, device) for repetition in range(repetitions)]
    finally:
        gc.enable()
    return [_joined([one[index] for one in rounds]) for index in range(len(exercises) + 1)]


def _repeat(exercises: Sequence[Exercise], reference: Exercise, repetition: int, visit: _Visit, device: torch.device) -> list[Timings]:
    """The timings of one visit to each, in the same order on every rank: in another one in every repetition, but whole steps always take
    turns with the reference."""
    everything = (*exercises, reference)
    timings: list[Timings] = [([], [])] * len(everything)
    # The reference is visited more often than once; its batches must not come twice in a row either.
    batches = count(repetition * (len(everything) + 1))
    places = np.arange(len(everything))
    for index in places if visit is _train else np.random.default_rng(repetition).permutation(places):
        if visit is _compute:
            _compute(reference, next(batches), device)
        timings[index] = visit(everything[index], next(batches) if everything[index] is reference else repetition, device)
    return timings


def _joined(timings: list[Timings]) -> Timings:
    """The timings of several visits as one."""
    return [time_us for forward, _ in timings for time_us in forward], [time_us for _, backward in timings for time_us in backward]


def _compute(exercise: Exercise, repetition: int, device: torch.device) -> Timings:
    exercise.prepare(repetition)
    return [_cold(exercise.forward, worked_us, device)], [_cold(exercise.backward, worked_us, device)]


def _exchange(exercise: Exercise, repetition: int, device: torch.device) -> Timings:
    exercise.prepare(repetition)
    return [_cold(exercise.forward, passed_us, device)], [_cold(exercise.backward, passed_us, device)]


def _train(exercise: Exercise, repetition: int, device: torch.device) -> Timings:
    times = visit_us(exercise, repetition, device)
    return times, [0.0] * len(times)


_VISITS: dict[Kind, _Visit] = {Kind.STEP: _train, Kind.COLLECTIVE: _exchange, Kind.DENSE: _compute, Kind.LOOKUP: _compute}


def _cold(action: Callable[[], None], stopwatch: _Stopwatch, device: torch.device) -> float:
    """Microseconds of an action that finds other data in the core's own caches. All ranks begin it together."""
    _other_data().add_(1.0)
    dist.barrier()
    return stopwatch(action, device)


@cache
def _other_data() -> torch.Tensor:
    """4 MiB: more than a core's own caches, less than the caches that cores share."""
    return torch.zeros(2**20)
