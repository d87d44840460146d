"""`emplace recommend`: which host and which place for the tables."""

from __future__ import annotations

from typing import Annotated

import typer

from emplace.app.cli import options, studying
from emplace.app.cli.exit_codes import PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.inputs import plan_options
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.recommend_text import recommend_view
from emplace.placement.plan import PlanStatus
from emplace.studies.recommend import WORK_S, RankingObjective, Recommendation, run_recommend
from emplace.studies.sweep import STUDY_GAP


def recommend(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A built-in model, the template 'suite', or a model file.")],
    settings: options.Settings = None,
    host: studying.OneHost = None,
    hosts: studying.Hosts = None,
    objective: Annotated[RankingObjective, typer.Option("--objective", help="What hosts are ranked by.")] = RankingObjective.THROUGHPUT,
    nodes: options.Nodes = None,
    tiers: options.Tiers = None,
    work_limit: options.WorkLimit = None,
    gap: studying.Gap = None,
    seed: options.Seed = None,
    stack: options.StackName = None,
    processes: studying.Processes = None,
    format: options.Format = OutputFormat.TEXT,
    out: options.Out = None,
) -> int:
    """Rank hosts, and places for the tables on them, for MODEL.

    On every host tables are planned in device memory, in system memory, on remote servers, and in both memories; each has an
    interval and the stage that limits. An order is called robust where the intervals are apart, else too close to call, with
    what to measure. Exit code: 0 ranked, 1 proven that MODEL fits on no host, 3 no plan, and not all decided within the limit.
    """
    chosen = plan_options(
        nodes=nodes, tiers=tiers, work_limit=WORK_S if work_limit is None else work_limit, seed=seed, gap=STUDY_GAP if gap is None else gap
    )
    setting = studying.setting_of(model, settings, chosen, stack)
    found_hosts = studying.read_hosts(host, hosts)
    with StatusLine() as status:
        told = studying.Counted(status, "placements")
        found = run_recommend(setting, found_hosts, objective, studying.cores(processes), told)
    give(found, recommend_view(found), format, out)
    return _exit_code(found)


def _exit_code(found: Recommendation) -> int:
    if found.best is not None:
        return YES
    return PROVEN_NO if all(each.figures.status is PlanStatus.INFEASIBLE for each in found.ranking) else UNDECIDED
