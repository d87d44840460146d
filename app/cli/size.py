"""`emplace size`: how large a job must be."""

from __future__ import annotations

from typing import Annotated

import typer

from emplace.app.cli import options, studying
from emplace.app.cli.exit_codes import PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.inputs import plan_options
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.size_text import size_view
from emplace.placement.host import MAX_RANKS
from emplace.studies.fleet import Hogwild
from emplace.studies.jobs import Wanted
from emplace.studies.size import MOST_NODES, WORK_S, SizeOutcome, Sizing, run_size
from emplace.studies.sweep import STUDY_GAP
from emplace.studies.target import target_of

ASSUMED = Hogwild()


def size(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A built-in model, the template 'suite', or a model file.")],
    throughput: Annotated[
        str | None, typer.Option("--throughput", metavar="X", help="Examples per second to reach, such as 500k or 1.5M.")
    ] = None,
    examples: Annotated[
        str | None, typer.Option("--examples", metavar="N", help="With --deadline: examples to train on, such as 10G.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="TIME", help="With --examples: how long it may take, such as 8h.")
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
    Exit code: 0 a job is found, 1 proven that none of the sizes is enough, 3 undecided within the limit.
    """
    target = target_of(throughput, examples, deadline)
    chosen = plan_options(
        tiers=tiers, work_limit=WORK_S if work_limit is None else work_limit, seed=seed, gap=STUDY_GAP if gap is None else gap
    )
    setting = studying.setting_of(model, settings, chosen, stack)
    found_hosts = studying.read_hosts(host, hosts)
    hogwild = Hogwild(batch=batch, threads=threads, tau=tau)
    with StatusLine() as status:
        told = studying.Counted(status, "jobs")
        found = run_size(setting, found_hosts, target, objective, hogwild, max_nodes, studying.cores(processes), told)
    give(found, size_view(found), format, out)
    return _exit_code(found)


def _exit_code(found: Sizing) -> int:
    if found.best is not None:
        return YES
    return PROVEN_NO if all(job.outcome is SizeOutcome.IMPOSSIBLE for job in found.jobs) else UNDECIDED
