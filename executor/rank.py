"""The program of one rank: `python -m executor.rank JOB.json`, started by torchrun.

Trains every plan of the job and writes one report per plan. Whatever goes wrong ends up in torchrun's error file.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from executor.batches import draw_batch, prepared_count
from executor.job import Job, RankProcess, RankReport, process_path, progress_path, report_path, write_atomically
from executor.model import Batch
from executor.numerics import compare_updates
from executor.peak_memory import PeakMemory
from executor.placed import held_shards
from executor.stage_times import staged_steps
from executor.training import Training, timed_steps
from placement.plan import Plan
from placement.reading import read_file
from profiler.agent import AGENT_PID_VARIABLE, die_with

SOFTWARE = ("torch", "torchrec")


@record
def main() -> None:
    # Workers have sessions of their own: without this, an agent killed by SIGKILL would leave them behind.
    die_with(int(os.environ[AGENT_PID_VARIABLE]), signal.SIGKILL)
    job = read_file(Path(sys.argv[1]), Job)
    run_job(job)


def run_job(job: Job) -> None:
    """Train the job's plans in turn, one report each."""
    # torchrun knows one machine; the plan may stand for several nodes on it.
    os.environ["LOCAL_WORLD_SIZE"] = str(job.local_world_size)
    tell = Telling(Path(job.folder), int(os.environ["RANK"]))
    tell.phase("joining the others")
    device = _join()
    control = dist.new_group(backend="gloo")
    for index, plan in enumerate(job.plans):
        report = execute(plan, job, device, control, tell)
        write_atomically(report_path(Path(job.folder), index, dist.get_rank()), report)
    tell.phase("leaving")
    dist.barrier()
    dist.destroy_process_group()


class Telling:
    """What this rank is doing: a file of its own for who looks for it, lines of progress from rank 0."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank

    def phase(self, phase: str) -> None:
        process = psutil.Process()
        me = RankProcess(rank=self._rank, pid=process.pid, started_at=process.create_time(), phase=phase)
        write_atomically(process_path(self._folder, self._rank), me)
        self.line(phase)

    def line(self, line: str) -> None:
        if self._rank == 0:
            with progress_path(self._folder).open("a", encoding="utf-8") as progress:
                progress.write(line + "\n")

    def steps(self, what: str, total: int) -> Callable[[int], None]:
        """Tells about the last step, and about others at most once a second."""
        told_at = time.monotonic()

        def tell(done: int) -> None:
            nonlocal told_at
            if done == total or time.monotonic() - told_at > 1:
                told_at = time.monotonic()
                self.line(f"{what}: step {done} of {total}")

        return tell


def execute(plan: Plan, job: Job, device: torch.device, control: dist.ProcessGroup, tell: Telling) -> RankReport:
    """Build, train, read back, compare: one plan's report."""
    spec, rank, name = plan.question.model, dist.get_rank(), plan.model.name
    tell.phase(f"{name}: comparing updates with an unsharded reference")
    errors = compare_updates(plan, job.seed, device, control)

    tell.phase(f"{name}: drawing batches")
    total = job.warmup_steps + job.steps
    batches = [draw_batch(spec, spec.local_batch_size, job.seed, rank, n) for n in range(prepared_count(spec, total))]
    tell.phase(f"{name}: building the model")
    memory = PeakMemory(device)
    training = Training(plan, spec.optimizer, device)

    def rotation(start: int, count: int) -> list[Batch]:
        return [batches[number % len(batches)] for number in range(start, start + count)]

    tell.phase(f"{name}: training")
    timed_steps(training, rotation(0, job.warmup_steps), tell.steps(f"{name}: warming up", job.warmup_steps))
    times = timed_steps(training, rotation(job.warmup_steps, job.steps), tell.steps(f"{name}: training", job.steps))
    peak_bytes = memory.peak_bytes()
    tell.phase(f"{name}: timing stages")
    stages = staged_steps(training, rotation(total, job.staged_steps))
    held = held_shards(training.dmp)
    del training
    gc.collect()
    return RankReport(
        rank=rank,
        step_times_us=tuple(times),
        stages_us=stages,
        peak_bytes=peak_bytes,
        held=held,
        update_errors=tuple(errors),
        backend=dist.get_backend(),
        software={package: version(package) for package in SOFTWARE} | {"python": sys.version.split()[0]},
    )


def _join() -> torch.device:
    """One CUDA device a rank where there are any, else this rank's share of the cores."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        return device
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    return torch.device("cpu")


if __name__ == "__main__":
    main()
