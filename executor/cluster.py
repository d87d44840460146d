"""The program of one rank of a plan for several nodes, started by torchrun on each of them; docs/how-to/run-a-plan.md shows the command.

    torchrun --nnodes 2 --node-rank 0 --nproc-per-node 2 --master-addr ADDR --master-port PORT -m emplace.executor.cluster PLAN.json

Every node needs the plan's file and nothing else in common with the others. Rank 0 judges, prints the verdicts, and writes the
measurement to --out. The plan must be for as many nodes and ranks, of machines like these.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import record

from emplace.executor.errors import NotRunnableHere
from emplace.executor.export import local_world_size, plan_topology
from emplace.executor.job import Job
from emplace.executor.refusal import refuse_foreign, refuse_unsound
from emplace.executor.run import STAGED_STEPS, WARMUP_STEPS, measurement
from emplace.hardware.discover import discover_host
from emplace.placement.errors import EmplaceError
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan
from emplace.placement.reading import read_file
from emplace.runtime.files import refuse_unwritable, write_file
from emplace.runtime.process import die_with
from emplace.runtime.rank_process import leave
from emplace.runtime.ranks import threads_per_rank
from emplace.runtime.start import import_large
from emplace.runtime.temporary import temporary_folder

_FROM_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
_LARGEST_SEED = 2**31 - 1
"""As `emplace run` has it."""


@record
def main() -> None:
    die_with(os.getppid(), signal.SIGKILL)
    arguments = _arguments()
    if missing := [name for name in _FROM_TORCHRUN if not os.environ.get(name, "").isdecimal()]:
        print(f"emplace: start it with torchrun, which sets {', '.join(missing)}: see docs/how-to/run-a-plan.md", file=sys.stderr)
        sys.exit(2)
    try:
        plan = _plan(arguments.plan)
        if arguments.out is not None and os.environ["RANK"] == "0":
            refuse_unwritable(arguments.out)
    except EmplaceError as refusal:
        if os.environ["LOCAL_RANK"] == "0":
            print(f"emplace: {refusal}", file=sys.stderr)
        sys.exit(2)
    os.environ["OMP_NUM_THREADS"] = str(threads_per_rank(int(os.environ["LOCAL_WORLD_SIZE"])))
    with temporary_folder("cluster") as folder:
        job = Job(
            plans=(plan,),
            local_world_size=local_world_size(plan_topology(plan)),
            warmup_steps=WARMUP_STEPS,
            steps=arguments.steps,
            staged_steps=STAGED_STEPS,
            seed=arguments.seed,
            folder=str(folder),
        )
        by_rank = import_large("emplace.executor.rank").run_job(job)  # TorchRec: not for a plan that is refused
    if by_rank:
        _show(measurement(plan, job, [reports[0] for reports in by_rank]), arguments.out)
    leave()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--steps", type=_whole(1), help="measured steps; by default as many as take three seconds, from 30 to 200")
    parser.add_argument("--seed", type=_whole(0, _LARGEST_SEED), default=0)
    parser.add_argument("--out", type=Path, help="the measurement, written by rank 0")
    return parser.parse_args()


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Reads a whole number within limits."""
    rule = f"must be a whole number from {least}" + (" on" if most is None else f" to {most}")

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= (int(text) if most is None else most):
            raise argparse.ArgumentTypeError(f"{rule} (got {text!r})")
        return int(text)

    return read


def _plan(path: Path) -> Plan:
    """The plan in the file. Raises EmplaceError for one that can't run on this machine or in this launch."""
    plan = read_file(path, Plan)
    refuse_foreign(plan, discover_host())
    refuse_unsound(plan, str(path))
    _refuse_other_launches(plan)
    return plan


def _refuse_other_launches(plan: Plan) -> None:
    """Raises NotRunnableHere unless torchrun started as many ranks, on as many nodes, as the plan is for."""
    topology = plan_topology(plan)
    wanted = len(topology.ranks), local_world_size(topology)
    started = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if started != wanted:
        raise NotRunnableHere(
            f"the plan is for {wanted[0]} ranks, {wanted[1]} on each node; torchrun started {started[0]} ranks, {started[1]} on this node"
        )


def _show(measured: Measurement, out: Path | None) -> None:
    for verdict in measured.verdicts:
        print(f"{'passed' if verdict.passed else 'FAILED'}  {verdict.name}: {verdict.detail}")
    print(measured.status, flush=True)
    if out is not None:
        try:
            write_file(out, measured.canonical_json())
        except EmplaceError as error:
            print(f"emplace: {error}", file=sys.stderr)
            leave(2)
    if not measured.verified:
        leave(1)


if __name__ == "__main__":
    main()
