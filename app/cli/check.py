"""`emplace check`: the gate for continuous integration. Here is what can be asked; gate.py answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options
from emplace.app.cli.options import CheckFormat


def check(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL...]", help="Built-in models, model files, or patterns such as 'models/*.yaml'. Default: the config's."
        ),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="HOST", help="A built-in host, a host file, or 'local'; repeat it for several. Default: the config's."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The config, instead of the nearest emplace.toml where MODEL or --host is missing."),
    ] = None,
    nodes: options.Nodes = None,
    ranks: options.Ranks = None,
    tiers: options.Tiers = None,
    hbm_reserve: options.HbmReserve = None,
    ddr_reserve: options.DdrReserve = None,
    max_step_time_us: Annotated[float | None, typer.Option("--max-step-time-us", help="Budget: the longest step.")] = None,
    min_throughput: Annotated[
        float | None, typer.Option("--min-throughput", help="Budget: examples per second, all ranks together.")
    ] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option("--baseline", metavar="PLAN.json", help="A plan to compare with; repeat it for several models or hosts."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="REF|PLAN.json|URL",
            help="Say what changed since this commit, such as origin/main, or these plans, in files or of a service.",
        ),
    ] = None,
    max_regression: Annotated[
        float | None, typer.Option("--max-regression", metavar="PCT", help="Budget: percent over the step of --baseline or --against.")
    ] = None,
    max_power_w: Annotated[float | None, typer.Option("--max-power-w", help="Budget: watts of all servers of the job.")] = None,
    sure: Annotated[
        bool, typer.Option("--sure", help="Budgets must hold over the whole range of a step that nobody measured, or are undecided.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Look for the best plan too, until it is proven or the limit is reached.")] = False,
    time_limit: options.TimeLimit = None,
    work_limit: options.WorkLimit = None,
    seed: options.Seed = None,
    cost_model: options.CostModelFile = None,
    stack: options.StackName = None,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="Let this Emplace service answer.")] = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="In the text, say all that is known, with patches; fixes are planned with, to say how long the step is."
        ),
    ] = False,
    format: Annotated[CheckFormat, typer.Option("--format", help="What to print, or to write to --out.")] = CheckFormat.TEXT,
    out: options.Out = None,
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT=FILE", help="Write a report in this format, too; repeat it for several."),
    ] = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write emplace.toml, or --config, with budgets of today's steps and --margin, and check nothing.")
    ] = False,
    margin: Annotated[float, typer.Option("--margin", min=0, metavar="PCT", help="With --init: percent over today's step.")] = 10.0,
    soft_fail: Annotated[bool, typer.Option("--soft-fail", help="Report a no, but exit 0 (undecided stays 3).")] = False,
) -> int:
    """Does each MODEL fit each HOST, within the budgets?

    It answers as soon as that is certain, by the first plan that keeps the budgets; --plan looks for the best one. Each
    answer takes at most 10 s, unless a limit is given; several are looked for at once, one on each core. Exit code: 0 all
    fit, 1 one is proven not to (or to break a budget), 3 undecided within the limit, 2 bad input; what else was asked is
    checked all the same.
    With --out the report goes to the file, and stdout shows the text (or the JSON document).
    """
    from emplace.app.cli.asked import CheckArguments
    from emplace.app.cli.gate import Reports, gate
    from emplace.app.cli.gate import init as init_config

    settings = {
        "nodes": nodes,
        "ranks": ranks,
        "tiers": tiers,
        "hbm_reserve": hbm_reserve,
        "ddr_reserve": ddr_reserve,
        "max_step_time_us": max_step_time_us,
        "min_throughput": min_throughput,
        "max_regression": max_regression,
        "max_power_w": max_power_w,
        "sure": sure or None,
        "time_limit": time_limit,
        "work_limit": work_limit,
        "seed": seed,
        "cost_model": None if cost_model is None else str(cost_model),
        "stack": stack,
    }
    asked = CheckArguments(
        models=tuple(models or ()),
        hosts=tuple(hosts or ()),
        settings={key: value for key, value in settings.items() if value is not None},
        baselines=tuple(baseline or ()),
        against=tuple(against or ()),
        whole=plan,
        why=why,
        server=server,
    )
    if init:
        return init_config(asked, config or Path("emplace.toml"), margin)
    return gate(asked, config, Reports(format, out, tuple(report or ())), soft_fail=soft_fail)
