"""`emplace plan`: plan offline."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options
from emplace.app.cli.inputs import naming_file, plan_options, read_cost_model, read_model, read_plan, read_stack
from emplace.app.cli.interrupts import asked_to_stop
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import as_json, as_text, give, give_text, note
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.figures import count
from emplace.app.reports.plan_text import plan_view
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import Plan, PlanStatus
from emplace.placement.workload import Objective
from emplace.planning import answer, build_question, resolve_host
from emplace.solver.progress import Monitor

EXIT_CODES = {PlanStatus.OPTIMAL: 0, PlanStatus.FEASIBLE: 0, PlanStatus.INFEASIBLE: 1, PlanStatus.UNDECIDED: 3}


class PlanFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    TORCHREC = "torchrec"


def plan(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A built-in model or a model file.")],
    host: options.Host,
    settings: options.Settings = None,
    nodes: options.Nodes = None,
    ranks: options.Ranks = None,
    tiers: options.Tiers = None,
    hbm_reserve: options.HbmReserve = None,
    ddr_reserve: options.DdrReserve = None,
    objective: Annotated[
        Objective, typer.Option("--objective", help="Which step time to minimise; or first the number of devices.")
    ] = Objective.MEAN,
    time_limit: options.TimeLimit = None,
    work_limit: options.WorkLimit = None,
    gap: Annotated[float | None, typer.Option("--gap", help="Stop once the plan is proven this close to the best. Default: 0.001.")] = None,
    seed: options.Seed = None,
    start: Annotated[Path | None, typer.Option("--start", metavar="PLAN.json", help="The plan that the job runs under now.")] = None,
    move_price: Annotated[
        float | None,
        typer.Option("--move-price", metavar="US_PER_GIB", help="Step time to save for each GiB moved away from --start."),
    ] = None,
    warm_start: Annotated[
        Path | None,
        typer.Option("--warm-start", metavar="PLAN.json", help="A plan for a question that differs a little: begin the search there."),
    ] = None,
    cost_model: options.CostModelFile = None,
    stack: options.StackName = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why the plan is no faster, and what more hardware would bring: solves again.")
    ] = False,
    proof: Annotated[bool, typer.Option("--proof", help="Let the plan carry a proof, for 'emplace audit --proof' to verify.")] = False,
    format: Annotated[PlanFormat, typer.Option("--format", help="What to print.")] = PlanFormat.TEXT,
    out: options.Out = None,
) -> int:
    """Decide where each table of MODEL lives on HOST, and prove how good that is.

    --out writes the plan as JSON (or as TorchRec reads it, with --format torchrec). Exit code: 0 planned, 1 proven not
    to fit, 3 undecided within the limit. Without a limit it stops after 10 s of counted work.
    With --explain, Ctrl-C after the plan is found ends the explaining and keeps the plan.
    """
    if explain and format is PlanFormat.TORCHREC:
        raise InvalidDocument(
            "options", [BrokenRule("/explain", "", "--explain goes with --format text or json: TorchRec has no place for it")]
        )
    chosen = plan_options(
        nodes=nodes,
        ranks=ranks,
        tiers=tiers,
        hbm_reserve=hbm_reserve,
        ddr_reserve=ddr_reserve,
        time_limit=time_limit,
        work_limit=work_limit,
        seed=seed,
        objective=objective,
        gap=gap,
        start=start,
        move_price=move_price,
    )
    question = build_question(read_model(model, settings), resolve_host(host), chosen, read_cost_model(cost_model), read_stack(stack))
    with StatusLine() as status, naming_file(model):
        found = answer(question, status.monitor, None if warm_start is None else read_plan(warm_start), proof=proof)
        found = _explained(found, status) if explain else found
    if format is PlanFormat.TORCHREC:
        _torchrec(found, out)
    else:
        give(found, plan_view(found, out), OutputFormat(format), out)
    return EXIT_CODES[found.status]


def _explained(found: Plan, status: StatusLine) -> Plan:
    """The plan with its diagnosis, which is cut short by Ctrl-C."""
    from emplace.diagnosing import diagnosed, num_changes

    if changes := num_changes(found):
        limit = " and ".join(f"{seconds:g} s of {kind}" for kind, seconds in found.question.options.limits.items())
        status.say("")
        note(
            f"explaining: {count(changes, 'change')} of the hardware to solve, each within {limit} as the plan; Ctrl-C keeps what is there"
        )
    with asked_to_stop() as should_stop:
        return diagnosed(found, Monitor.of(status.solving, should_stop))


def _torchrec(found: Plan, out: Path | None) -> None:
    """Print and save the plan as TorchRec reads it; where there is none, stderr says why."""
    from emplace.executor.export import to_torchrec

    if not found.has_placement:
        note(as_text(plan_view(found)))
        return
    give_text(as_json(to_torchrec(found)), out)
