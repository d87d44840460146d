"""The program of one rank: main() with the arguments DESIGN.json OUT_DIRECTORY DEADLINE, in a fork of emplace.runtime.agent.

Measures the design round by round and appends one JSON line per point to OUT_DIRECTORY/rank-N.jsonl, until the monotonic
clock of the machine shows DEADLINE seconds (or later, until as much is measured as a fit needs). What the file holds already is
not measured again; the ranks' files hold the same.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from emplace.placement.reading import read_file
from emplace.profiler.design.points import Design, Key, Kind, Sample
from emplace.profiler.fit.samples import rank_path, read_rank
from emplace.profiler.measure.collectives import collective_exercise
from emplace.profiler.measure.dense import DenseExercise
from emplace.profiler.measure.exercise import Exercise, time_round
from emplace.profiler.measure.lookup import LookupExercise
from emplace.profiler.measure.rounds import rounds
from emplace.profiler.measure.step import step_exercise
from emplace.runtime.allocator import keep_freed_memory
from emplace.runtime.between_ranks import largest_of_ranks
from emplace.runtime.rank_process import full_disk_as_exit_code, leave, tell_phase
from emplace.runtime.reference_step import reference_step


def main() -> None:
    with full_disk_as_exit_code():
        _measure_recorded()


@record
def _measure_recorded() -> None:
    folder, rank = Path(sys.argv[1]).parent, int(os.environ["RANK"])
    tell_phase(folder, rank, "joining the others")
    design, deadline = read_file(Path(sys.argv[1]), Design), float(sys.argv[3])
    device = _device()
    keep_freed_memory()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    tell_phase(folder, rank, "measuring")
    path = rank_path(Path(sys.argv[2]), rank)
    done = frozenset(sample.key for sample in read_rank(path))
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


def measure(design: Design, device: torch.device, done: frozenset[Key]) -> Iterator[list[Sample]]:
    """Measure the points that are not `done`; yields this rank's samples, one list a round. All ranks must call it with the same."""
    references: dict[Kind, Exercise] = {}
    for this in rounds(design, done):
        if this.kind not in references:
            references[this.kind] = _reference(design, this.kind, device)
        exercises = [_exercise(design, this.kind, index, device) for index in this.indices]
        *timings, reference = time_round(exercises, references[this.kind], this.kind, design.round_s, device)
        yield [
            Sample(
                kind=this.kind,
                index=index,
                sweep=this.sweep,
                forward_us=tuple(forward),
                backward_us=tuple(backward),
                reference_us=tuple(there + back for there, back in zip(*reference, strict=True)),
                tables=exercise.counts if isinstance(exercise, LookupExercise) else (),
            )
            for index, exercise, (forward, backward) in zip(this.indices, exercises, timings, strict=True)
        ]


def _exercise(design: Design, kind: Kind, index: int, device: torch.device) -> Exercise:
    match kind:
        case Kind.STEP:
            return step_exercise(design.steps[index], design.seed, device)
        case Kind.COLLECTIVE:
            return collective_exercise(design.collectives[index], device)
        case Kind.DENSE:
            return DenseExercise(design.dense[index], device)
        case Kind.LOOKUP:
            return LookupExercise(design.lookups[index], np.random.default_rng([design.seed, dist.get_rank(), index]), device)


def _reference(design: Design, kind: Kind, device: torch.device) -> Exercise:
    match kind:
        case Kind.STEP:
            return reference_step(design.seed, device)
        case Kind.COLLECTIVE:
            return collective_exercise(design.reference.collective, device)
        case Kind.DENSE:
            return DenseExercise(design.reference.dense, device)
        case Kind.LOOKUP:
            return LookupExercise(design.reference.lookup, np.random.default_rng([design.seed, dist.get_rank()]), device)


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device
