"""The program of one rank: main() with the argument JOB.json, in a fork of emplace.runtime.agent.

Trains every plan of the job and writes one report per plan. Whatever goes wrong ends up in the rank's error file.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from emplace.executor.export import plan_topology
from emplace.executor.job import FEWEST_STEPS, Job, RankReport, enough_steps, progress_path, report_path
from emplace.executor.numerics import compare_updates
from emplace.executor.peak_memory import peak_bytes
from emplace.executor.placed import held_shards
from emplace.executor.refusal import cuda_ranks
from emplace.executor.stage_times import staged_steps
from emplace.executor.traces.batches import prepared_batches
from emplace.executor.training import timed_steps, training_of
from emplace.placement.plan import Plan
from emplace.placement.reading import read_file
from emplace.runtime.allocator import keep_freed_memory
from emplace.runtime.batches import draw_batch
from emplace.runtime.between_ranks import largest_of_ranks
from emplace.runtime.dlrm import Batch
from emplace.runtime.files import write_whole
from emplace.runtime.rank_process import full_disk_as_exit_code, leave, tell_phase
from emplace.runtime.reference_step import reference_step
from emplace.runtime.repeated_step import visit_us
from emplace.runtime.temporary import in_use

SOFTWARE = ("torch", "torchrec")
_ROUND_STEPS, _MOST_ROUNDS = 5, 20
"""A plan by itself takes turns with the reference: in rounds of so many steps at least, and so many at most."""
_SETTLING_S, _MOST_SETTLING = 1.5, 100
"""Seconds, or steps where these are fewer, of more warm-up where steps are held against measured prices: a profile's ranks have long run."""


def main() -> None:
    with full_disk_as_exit_code():
        _run_recorded()


@record
def _run_recorded() -> None:
    path = Path(sys.argv[1])
    with in_use(path.parent):
        run_job(read_file(path, Job))
    leave()


def run_job(job: Job) -> list[list[RankReport]]:
    """Train the job's plans and write a report of each to the job's folder.

    Rank 0 returns the reports of all ranks, one list a rank; the others return an empty list.
    """
    # The launch knows one machine; the plan may stand for several nodes on it.
    os.environ["LOCAL_WORLD_SIZE"] = str(job.local_world_size)
    tell = Telling(Path(job.folder), int(os.environ["RANK"]))
    tell.phase("joining the others")
    device = _join(on_cuda=cuda_ranks(job.plans[0]) > 0)
    control = dist.new_group(backend="gloo")
    groups = [job.plans] if job.rounds > 1 else [(plan,) for plan in job.plans]
    reports = []
    for plans in groups:
        reports += _execute(plans, job, device, control, tell)
        gc.collect()
    reports = [_with_peak(report, plan, job, device, tell) for report, plan in zip(reports, job.plans, strict=True)]
    for index, report in enumerate(reports):
        write_whole(report_path(Path(job.folder), index, dist.get_rank()), report.canonical_json())
    tell.phase("leaving")
    everyone: list[list[RankReport]] | None = [[]] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(reports, everyone, dst=0, group=control)
    dist.destroy_process_group()
    return everyone or []


class Telling:
    """Tells what this rank is doing: every rank in a file of its own, rank 0 in lines of progress too."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank

    def phase(self, phase: str) -> None:
        tell_phase(self._folder, self._rank, phase)
        self.line(phase)

    def line(self, line: str) -> None:
        if self._rank == 0:
            with progress_path(self._folder).open("a", encoding="utf-8") as progress:
                progress.write(line + "\n")

    def steps(self, what: str, total: int) -> Callable[[int], None]:
        """A function that tells how many of `total` steps are done: of the last step, and of others at most once a second."""
        told_at = time.monotonic()

        def tell(done: int) -> None:
            nonlocal told_at
            if done == total or time.monotonic() - told_at > 1:
                told_at = time.monotonic()
                self.line(f"{what}: step {done} of {total}")

        return tell


class Trial:
    """One plan's model, built and warmed up, taking steps whenever it is told to. All ranks do the same at the same time."""

    def __init__(self, plan: Plan, job: Job, device: torch.device, control: dist.ProcessGroup, tell: Telling) -> None:
        self._name = plan.model.name
        self._job, self._tell = job, tell
        tell.phase(f"{self._name}: comparing updates with an unsharded reference")
        self._errors = compare_updates(plan, job.seed, device, control)
        tell.phase(f"{self._name}: drawing batches")
        self._batches = _batches(plan, job, job.warmup_steps + (job.steps or FEWEST_STEPS))
        tell.phase(f"{self._name}: building the model")
        self._training = training_of(plan, device)
        self._times: list[float] = []
        self._taken = 0
        tell.phase(f"{self._name}: training")
        self._expect(self._warm_up(job.warmup_steps))

    def settle(self) -> None:
        """Take more steps that don't count, as many on every rank. The first ones of all are slow, so the number of those that do count
        follows from these."""
        if settling := int(min(_SETTLING_S * 1e6 / self._warm_step_us, _MOST_SETTLING)):
            self._expect(self._warm_up(settling))

    def train(self, part: int, parts: int, *, after_another: bool) -> None:
        """Take one of so many equal parts of the timed steps. After another trial's, or the reference's, a step that is not timed comes
        first: it finds that one's data in the caches."""
        if after_another:
            timed_steps(self._training, self._next_batches(1), lambda _: None)
        start, end = self.steps * part // parts, self.steps * (part + 1) // parts
        self._times += timed_steps(self._training, self._next_batches(end - start), lambda done: self._tell_trained(start + done))

    def report(self, reference_us: tuple[tuple[float, ...], ...]) -> RankReport:
        """This rank's report of the plan, with the times of the reference step in each visit to it. Times the stages and reads the
        placement back for it."""
        self._tell.phase(f"{self._name}: timing stages")
        stages = staged_steps(self._training, self._next_batches(self._job.staged_steps))
        return RankReport(
            rank=dist.get_rank(),
            step_times_us=tuple(self._times),
            stages_us=stages,
            reference_us=reference_us,
            held=held_shards(self._training.dmp),
            update_errors=tuple(self._errors),
            backend=dist.get_backend(),
            software={package: version(package) for package in SOFTWARE} | {"python": sys.version.split()[0]},
        )

    def _expect(self, times_us: list[float]) -> None:
        """Let steps take as long as these did, on the slowest rank: how many of them are timed follows from it."""
        self._warm_step_us = largest_of_ranks(float(np.median(times_us)))
        self.steps = self._job.steps or enough_steps(self._warm_step_us)
        self._tell_trained = self._tell.steps(f"{self._name}: training", self.steps)

    def _warm_up(self, steps: int) -> list[float]:
        return timed_steps(self._training, self._next_batches(steps), self._tell.steps(f"{self._name}: warming up", steps))

    def _next_batches(self, count: int) -> list[Batch]:
        start, self._taken = self._taken, self._taken + count
        return [self._batches[number % len(self._batches)] for number in range(start, start + count)]


def _execute(plans: Sequence[Plan], job: Job, device: torch.device, control: dist.ProcessGroup, tell: Telling) -> list[RankReport]:
    """Train plans side by side: all are built, then take their steps in rounds, in random order and then in its reverse.

    Where prices were measured beside the reference step, it is timed before, between and after the rounds, as a profile times it. A plan
    by itself settles first, and has as many rounds as its steps allow.
    """
    trials = [Trial(plan, job, device, control, tell) for plan in plans]
    reference = reference_step(job.seed, device) if any(map(has_reference, plans)) else None
    rounds = job.rounds
    if len(trials) == 1 and reference is not None:
        trials[0].settle()
        rounds = min(max(trials[0].steps // _ROUND_STEPS, 2), _MOST_ROUNDS)
    visits = [] if reference is None else [tuple(visit_us(reference, 0, device))]
    rng, order = np.random.default_rng(job.seed), np.arange(len(trials))
    for number in range(rounds):
        order = order[::-1] if number % 2 else rng.permutation(len(trials))
        for index in order.tolist():
            if len(trials) > 1:
                tell.line(f"{plans[index].model.name}: turn {number + 1} of {rounds}")
            trials[index].train(number, rounds, after_another=len(trials) > 1 or reference is not None)
        if reference is not None:
            visits.append(tuple(visit_us(reference, number + 1, device)))
    return [trial.report(tuple(visits) if has_reference(plan) else ()) for plan, trial in zip(plans, trials, strict=True)]


def has_reference(plan: Plan) -> bool:
    """Whether the cost model was measured beside the reference step, on as many ranks."""
    cost_model = plan.question.cost_model
    return cost_model.reference_step_us is not None and cost_model.ranks == dist.get_world_size()


def _batches(plan: Plan, job: Job, steps: int) -> list[Batch]:
    """The batches that this rank takes in turn in so many steps."""
    spec, rank, trainers = plan.question.model, dist.get_rank(), len(plan_topology(plan).trainers)
    if rank >= trainers:
        # A remote server holds tables and feeds an empty batch.
        return [draw_batch(spec, 0, job.seed, rank, 0)]
    return prepared_batches(spec, steps, job.seed, rank, trainers, None if job.trace is None else Path(job.trace))


def _with_peak(report: RankReport, plan: Plan, job: Job, device: torch.device, tell: Telling) -> RankReport:
    """The report with its peak bytes, measured in a pass as long as the warm-up."""
    tell.phase(f"{plan.model.name}: measuring memory")
    batches = _batches(plan, job, job.warmup_steps)
    steps = [batches[number % len(batches)] for number in range(job.warmup_steps)]
    return report.model_copy(update={"peak_bytes": peak_bytes(plan, device, steps)})


def _join(*, on_cuda: bool) -> torch.device:
    """Join the process group. Returns this rank's device: a CUDA device of its own where the plans say so, else the CPU."""
    if on_cuda:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        return device
    keep_freed_memory()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    return torch.device("cpu")
