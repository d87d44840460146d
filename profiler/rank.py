"""The program of one rank: `python -m profiler.start profiler.rank DESIGN.json OUT_DIRECTORY DEADLINE`, started by torchrun.

Measures the design round by round and appends one JSON line per point to OUT_DIRECTORY/rank-N.jsonl, until the monotonic
clock of the machine shows DEADLINE seconds (or later, until as much is measured as a fit needs). Points that the file holds
already are not measured again; the ranks' files hold the same ones.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from placement.reading import read_file
from profiler.agent import AGENT_PID_VARIABLE, die_with, leave
from profiler.allocator import keep_freed_memory
from profiler.collectives import collective_exercise
from profiler.dense import DenseExercise
from profiler.exercise import Exercise, largest_of_ranks, time_round
from profiler.lookup import LookupExercise
from profiler.points import Design, Kind, Sample
from profiler.samples import rank_path, read_rank
from profiler.step import StepExercise

_ROUND = 4
"""Points that are timed together."""

Build = Callable[[], Exercise]
Done = frozenset[tuple[Kind, int]]


@record
def main() -> None:
    die_with(int(os.environ[AGENT_PID_VARIABLE]), signal.SIGKILL)
    design, deadline = read_file(Path(sys.argv[1]), Design), float(sys.argv[3])
    device = _device()
    keep_freed_memory()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    path = rank_path(Path(sys.argv[2]), dist.get_rank())
    done = frozenset((sample.kind, sample.index) for sample in read_rank(path))
    with path.open("a") as out:
        measured = len(done)
        for samples in measure(design, device, done):
            out.writelines(sample.canonical_json() + "\n" for sample in samples)
            out.flush()
            measured += len(samples)
            if measured >= design.fewest and largest_of_ranks(time.monotonic()) > deadline:
                break
    dist.destroy_process_group()
    leave()


def measure(design: Design, device: torch.device, done: Done) -> Iterator[list[Sample]]:
    """The samples of this rank that are not `done`, one list a round. All ranks must be doing the same."""
    references: dict[Kind, Exercise] = {}
    for kind, points in _rounds(design, device, done):
        if kind not in references:
            references[kind] = _reference(design, kind, device)
        exercises = [build() for _, build in points]
        *timings, reference = time_round(exercises, references[kind], kind, design.round_s, device)
        yield [
            Sample(
                kind=kind,
                index=index,
                forward_us=tuple(forward),
                backward_us=tuple(backward),
                reference_us=tuple(there + back for there, back in zip(*reference, strict=True)),
                tables=exercise.counts if isinstance(exercise, LookupExercise) else (),
            )
            for (index, _), exercise, (forward, backward) in zip(points, exercises, timings, strict=True)
        ]


def _reference(design: Design, kind: Kind, device: torch.device) -> Exercise:
    match kind:
        case Kind.STEP:
            return StepExercise(design.reference.step, design.seed, device)
        case Kind.COLLECTIVE:
            return collective_exercise(design.reference.collective, device)
        case Kind.DENSE:
            return DenseExercise(design.reference.dense, device)
        case Kind.LOOKUP:
            return LookupExercise(design.reference.lookup, np.random.default_rng([design.seed, dist.get_rank()]), device)


def _rounds(design: Design, device: torch.device, done: Done) -> Iterator[tuple[Kind, list[tuple[int, Build]]]]:
    """Points that are timed together. The kinds take turns, each in the design's order."""
    rank = dist.get_rank()
    builds: list[tuple[Kind, list[Build]]] = [
        (Kind.STEP, [lambda point=point: StepExercise(point, design.seed, device) for point in design.steps]),  # type: ignore[misc]
        (Kind.COLLECTIVE, [lambda point=point: collective_exercise(point, device) for point in design.collectives]),  # type: ignore[misc]
        (Kind.DENSE, [lambda point=point: DenseExercise(point, device) for point in design.dense]),  # type: ignore[misc]
        (
            Kind.LOOKUP,
            [
                lambda point=point, index=index: LookupExercise(point, np.random.default_rng([design.seed, rank, index]), device)  # type: ignore[misc]
                for index, point in enumerate(design.lookups)
            ],
        ),
    ]
    rounds = [(place, kind, part) for kind, points in builds for place, part in _parts(kind, points, done)]
    yield from ((kind, part) for _, kind, part in sorted(rounds, key=lambda one: one[0]))


def _parts(kind: Kind, points: list[Build], done: Done) -> Iterator[tuple[float, list[tuple[int, Build]]]]:
    """Rounds of points, each with its place in the order of all: what is cut off at the deadline is a fair share of everything."""
    left = [(index, build) for index, build in enumerate(points) if (kind, index) not in done]
    return ((left[start][0] / len(points), left[start : start + _ROUND]) for start in range(0, len(left), _ROUND))


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device
