"""`emplace check`: the gate for continuous integration."""

from __future__ import annotations

import time
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options
from emplace.app.cli.options import plan_options, read_cost_model, read_model, read_plan
from emplace.app.cli.output import print_text, save
from emplace.app.cli.progress import StatusLine
from emplace.app.cli.remote import check_on_server
from emplace.app.reports.check import REPORTERS
from emplace.gate import Budgets, CheckResult, enough_us, judge
from emplace.placement.errors import BrokenRule, EmplaceError, InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.plan import DEFAULT_LIMIT_S, Plan
from emplace.placement.reading import from_data
from emplace.planning import answer, build_question, resolve_host


class CheckFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    MARKDOWN = "markdown"


def check(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Built-in models or model files.")],
    host: options.Host,
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
        list[Path] | None, typer.Option("--baseline", metavar="PLAN.json", help="A plan to compare with; repeat it for several models.")
    ] = None,
    max_regression: Annotated[
        float | None, typer.Option("--max-regression", metavar="PCT", help="Budget: percent over the baseline's step time.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Look for the best plan too, until it is proven or the limit is reached.")] = False,
    time_limit: options.TimeLimit = None,
    work_limit: options.WorkLimit = None,
    seed: options.Seed = None,
    cost_model: options.CostModelFile = None,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="Let this Emplace service answer.")] = None,
    format: Annotated[CheckFormat, typer.Option("--format", help="What to print, or to write to --out.")] = CheckFormat.TEXT,
    out: options.Out = None,
    soft_fail: Annotated[bool, typer.Option("--soft-fail", help="Report a no, but exit 0 (undecided stays 3).")] = False,
) -> int:
    """Does each MODEL fit HOST, within the budgets?

    It answers as soon as that is certain, by the first plan that keeps the budgets; --plan looks for the best one. Each
    answer takes at most 10 s, unless a limit is given. Exit code: 0 all fit, 1 one is proven not to (or to break
    a budget), 3 undecided within the limit, 2 bad input.
    With --out the report goes to the file, and stdout shows the text (or the JSON document).
    """
    specs = _read_models(models)
    limits = _budgets(specs, max_step_time_us, min_throughput, baseline or [], max_regression)
    where, priced = resolve_host(host), read_cost_model(cost_model)
    chosen = plan_options(
        nodes=nodes,
        ranks=ranks,
        tiers=tiers,
        hbm_reserve=hbm_reserve,
        ddr_reserve=ddr_reserve,
        time_limit=DEFAULT_LIMIT_S if time_limit is work_limit is None else time_limit,
        work_limit=work_limit,
        seed=seed,
    )
    results = []
    with StatusLine() as status:
        for source, spec, limit in zip(models, specs, limits, strict=True):
            status.say(f"checking {spec.name} on {where.name}")
            started = time.perf_counter()
            if server is None:
                question = build_question(spec, where, chosen, priced)
                target_us = None if plan else enough_us(question, limit)
                result = judge(answer(question, status.monitor.wanting(target_us)), limit)
            else:
                result = check_on_server(server, spec, where, chosen, priced, limit, whole=plan)
            results.append(result.model_copy(update={"source": source, "seconds": time.perf_counter() - started}))
    _report(results, format, out)
    return _exit_code(results, soft_fail)


def _read_models(names: list[str]) -> list[ModelSpec]:
    """All models, or one error that names everything wrong in any of them."""
    specs, problems = [], []
    for name in names:
        try:
            specs.append(read_model(name))
        except EmplaceError as error:
            problems.append(str(error))
    if problems:
        raise EmplaceError("\n".join(problems))
    return specs


def _budgets(
    specs: list[ModelSpec],
    max_step_time_us: float | None,
    min_throughput: float | None,
    baseline_paths: list[Path],
    max_regression: float | None,
) -> list[Budgets]:
    """One set of budgets per model. Raises InvalidDocument."""
    if bool(baseline_paths) != (max_regression is not None):
        raise InvalidDocument("options", [BrokenRule("/max_regression", "", "--baseline and --max-regression go together")])
    baselines = _baseline_plans(specs, baseline_paths)
    given = {"max_step_time_us": max_step_time_us, "min_throughput": min_throughput, "max_regression": max_regression}
    stated = {key: value for key, value in given.items() if value is not None}
    return [from_data(stated | ({"baseline": plan} if plan else {}), Budgets, source="options") for plan in baselines]


def _baseline_plans(specs: list[ModelSpec], paths: list[Path]) -> list[Plan | None]:
    """The baseline of each model: the one of its name."""
    if not paths:
        return [None] * len(specs)
    plans = [read_plan(path) for path in paths]
    by_name = {plan.model.name: plan for plan in plans}
    twice = [name for name, count in Counter(plan.model.name for plan in plans).items() if count > 1]
    if twice:
        raise InvalidDocument("options", [BrokenRule("/baseline", "", f"more than one baseline is a plan of {', '.join(twice)}: give one")])
    missing = [spec.name for spec in specs if spec.name not in by_name]
    if missing:
        raise InvalidDocument("options", [BrokenRule("/baseline", "", f"no baseline is a plan of {', '.join(missing)}")])
    return [by_name[spec.name] for spec in specs]


def _report(results: list[CheckResult], format: CheckFormat, out: Path | None) -> None:
    report = REPORTERS[format](results)
    if out is not None:
        save(out, report)
    to_stdout = report if out is None or format is CheckFormat.JSON else REPORTERS[CheckFormat.TEXT](results)
    print_text(to_stdout)


def _exit_code(results: list[CheckResult], soft_fail: bool) -> int:
    if any(result.fits is False for result in results) and not soft_fail:
        return 1
    return 3 if any(result.fits is None for result in results) else 0
