"""`emplace size`: how large a job must be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options, studying
from emplace.app.cli.exit_codes import PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.inputs import plan_options, read_stack
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.cli.progress import StatusLine
from emplace.app.cli.size_fleet import size_fleet
from emplace.app.reports.size_text import size_view
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import MAX_RANKS
from emplace.studies.fleet import Hogwild
from emplace.studies.jobs import Wanted
from emplace.studies.size import MOST_NODES, WORK_S, Sizing, run_size
from emplace.studies.sized_job import SizeOutcome
from emplace.studies.sweep import STUDY_GAP
from emplace.studies.target import target_of

ASSUMED = Hogwild()


def size(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A built-in model, the template 'suite', or a model file.", show_default=False)
    ] = None,
    throughput: Annotated[
        str | None, typer.Option("--throughput", metavar="X", help="Examples per second to reach, such as 500k or 1.5M.")
    ] = None,
    examples: Annotated[
        str | None, typer.Option("--examples", metavar="N", help="With --deadline: examples to train on, such as 10G.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="TIME", help="With --examples: how long it may take, such as 8h.")
    ] = None,
    fleet: Annotated[
        Path | None,
        typer.Option("--fleet", metavar="FILE", help="Instead of MODEL: a YAML or JSON file with several jobs, and hosts in stock."),
    ] = None,
    settings: options.Settings = None,
    host: studying.OneHost = None,
    hosts: studying.Hosts = None,
    objective: Annotated[Wanted, typer.Option("--objective", help="What the best job has least of.")] = Wanted.SERVERS,
    max_nodes: Annotated[
        int,
        typer.Option(
            "--max-nodes", min=1, max=MAX_RANKS, help=f"Nodes of a job, and servers of each kind, at most. Default: {MOST_NODES}."
        ),
    ] = MOST_NODES,
    batch: Annotated[
        int,
        typer.Option(
            "--async-batch", min=1, help=f"Examples of a thread's round, where CPUs train asynchronously. Default: {ASSUMED.batch}."
        ),
    ] = ASSUMED.batch,
    threads: Annotated[
        int, typer.Option("--threads", min=1, max=1024, help=f"Hogwild threads of a trainer there. Default: {ASSUMED.threads}, assumed.")
    ] = ASSUMED.threads,
    tau: Annotated[
        int,
        typer.Option("--tau", min=1, help=f"Rounds between two averages of the dense parameters there. Default: {ASSUMED.tau}, assumed."),
    ] = ASSUMED.tau,
    tiers: options.Tiers = None,
    work_limit: options.WorkLimit = None,
    gap: studying.Gap = None,
    seed: options.Seed = None,
    stack: options.StackName = None,
    processes: studying.Processes = None,
    format: options.Format = OutputFormat.TEXT,
    out: options.Out = None,
) -> int:
    """How many servers MODEL needs on each host to be trained fast enough.

    Synchronous jobs are planned, cheapest sizes first: each is found, proven too small, or left undecided. CPU hosts also train
    asynchronously, with sparse and dense parameter servers: their counts follow from a queueing model and a real placement.
    With --fleet as many of its jobs as possible get servers from the stock, for the least of the objective.
    Exit code: 0 a job is found (with --fleet: for every job), 1 proven that none of the sizes is enough, 3 undecided within the limit.
    """
    chosen = plan_options(
        tiers=tiers, work_limit=WORK_S if work_limit is None else work_limit, seed=seed, gap=STUDY_GAP if gap is None else gap
    )
    hogwild = Hogwild(batch=batch, threads=threads, tau=tau)
    if fleet is not None:
        _refuse_beside_fleet(
            model, {"throughput": throughput, "examples": examples, "deadline": deadline, "set": settings, "host": host, "hosts": hosts}
        )
        return size_fleet(fleet, chosen, read_stack(stack), objective, hogwild, max_nodes, studying.cores(processes), format, out)
    if model is None:
        raise InvalidDocument("MODEL", [BrokenRule("", "", "name a model, or with --fleet a file that names several and a stock of hosts")])
    target = target_of(throughput, examples, deadline)
    setting = studying.setting_of(model, settings, chosen, stack)
    found_hosts = studying.read_hosts(host, hosts)
    with StatusLine() as status:
        told = studying.Counted(status, "jobs")
        found = run_size(setting, found_hosts, target, objective, hogwild, max_nodes, studying.cores(processes), told)
    give(found, size_view(found), format, out)
    return _exit_code(found)


def _refuse_beside_fleet(model: str | None, given: dict[str, object]) -> None:
    """Raises InvalidDocument for what the file of a fleet says itself."""
    named = [*(["MODEL"] if model else []), *(f"--{name}" for name, value in given.items() if value)]
    if named:
        rule = f"says itself what {' and '.join(named)} would: leave out one or the other"
        raise InvalidDocument("--fleet", [BrokenRule("", "", rule)])


def _exit_code(found: Sizing) -> int:
    if found.best is not None:
        return YES
    return PROVEN_NO if all(job.outcome is SizeOutcome.IMPOSSIBLE for job in found.jobs) else UNDECIDED
