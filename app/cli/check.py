"""`emplace check`: the gate for continuous integration."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from emplace.app.cli import options
from emplace.app.cli.checking import Check, check_all
from emplace.app.cli.exit_codes import BAD_INPUT, PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.options import plan_options, read_cost_model, read_model, read_plan, read_stack
from emplace.app.cli.output import note, print_text, save
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.check import REPORTERS
from emplace.app.reports.checked import Checked, RefusedCheck, refused
from emplace.gate import Budgets, CheckResult
from emplace.placement.errors import BrokenRule, EmplaceError, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import DEFAULT_LIMIT_S, Plan
from emplace.placement.reading import from_data
from emplace.planning import resolve_host


class CheckFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    MARKDOWN = "markdown"
    GITLAB = "gitlab"


def check(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Built-in models, model files, or patterns such as 'models/*.yaml'.")
    ],
    hosts: Annotated[
        list[str], typer.Option("--host", metavar="HOST", help="A built-in host, a host file, or 'local'; repeat it for several.")
    ],
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
    max_regression: Annotated[
        float | None, typer.Option("--max-regression", metavar="PCT", help="Budget: percent over the baseline's step time.")
    ] = None,
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
    format: Annotated[CheckFormat, typer.Option("--format", help="What to print, or to write to --out.")] = CheckFormat.TEXT,
    out: options.Out = None,
    soft_fail: Annotated[bool, typer.Option("--soft-fail", help="Report a no, but exit 0 (undecided stays 3).")] = False,
) -> int:
    """Does each MODEL fit each HOST, within the budgets?

    It answers as soon as that is certain, by the first plan that keeps the budgets; --plan looks for the best one. Each
    answer takes at most 10 s, unless a limit is given; several are looked for at once, one on each core. Exit code: 0 all
    fit, 1 one is proven not to (or to break a budget), 3 undecided within the limit, 2 bad input; what else was asked is
    checked all the same.
    With --out the report goes to the file, and stdout shows the text (or the JSON document).
    """
    specs, bad = _read_models(_expanded(models))
    where = [resolve_host(host) for host in dict.fromkeys(hosts)]
    prices = (read_cost_model(cost_model), read_stack(stack))
    pairs = [(source, spec, host) for source, spec in specs for host in where]
    limits = _budgets([(spec, host) for _, spec, host in pairs], max_step_time_us, min_throughput, baseline or [], max_regression, sure)
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
    checks = [Check(*pair, limit, chosen, plan, *prices, server) for pair, limit in zip(pairs, limits, strict=True)]
    with StatusLine() as status:
        answers = list(check_all(checks, status.say, status.monitor))
    results = tuple(each for each in answers if isinstance(each, CheckResult))
    checked = Checked(results, (*bad, *(each for each in answers if isinstance(each, RefusedCheck))))
    for each in checked.refused:
        note(f"emplace: {each.message}")
    _report(checked, format, out)
    return _exit_code(checked, soft_fail)


def _expanded(models: list[str]) -> list[str]:
    """Patterns, which a shell may have left as they are, become the files that they match, each once."""
    matched = [sorted(glob.glob(name, recursive=True)) or [name] if glob.has_magic(name) else [name] for name in models]
    return list(dict.fromkeys(name for names in matched for name in names))


def _read_models(names: list[str]) -> tuple[list[tuple[str, ModelSpec]], list[RefusedCheck]]:
    """Each model with where it came from, and those that can't be read."""
    specs, bad = [], []
    for name in names:
        try:
            specs.append((name, read_model(name)))
        except EmplaceError as error:
            bad.append(refused(name, None, error))
    return specs, bad


def _budgets(
    pairs: Sequence[tuple[ModelSpec, HostSpec]],
    max_step_time_us: float | None,
    min_throughput: float | None,
    baseline_paths: list[Path],
    max_regression: float | None,
    sure: bool,
) -> list[Budgets]:
    """One set of budgets for each model on each host. Raises InvalidDocument."""
    if bool(baseline_paths) != (max_regression is not None):
        raise InvalidDocument("options", [BrokenRule("/max_regression", "", "--baseline and --max-regression go together")])
    given: dict[str, Any] = {
        "max_step_time_us": max_step_time_us,
        "min_throughput": min_throughput,
        "max_regression": max_regression,
        "sure": sure or None,
    }
    stated = {key: value for key, value in given.items() if value is not None}
    if not baseline_paths:
        return [from_data(stated, Budgets, source="options")] * len(pairs)
    return [from_data(stated | {"baseline": plan}, Budgets, source="options") for plan in _baselines(pairs, baseline_paths)]


def _baselines(pairs: Sequence[tuple[ModelSpec, HostSpec]], paths: list[Path]) -> list[Plan]:
    """For each pair the baseline of the model's name on the host, else of the model's name alone."""
    plans = [read_plan(path) for path in paths]
    names = Counter((plan.model.name, plan.host.name) for plan in plans)
    twice = [f"{model} on {host}" for (model, host), count in names.items() if count > 1]
    if twice:
        raise InvalidDocument("options", [BrokenRule("/baseline", "", f"more than one baseline is a plan of {', '.join(twice)}: give one")])
    by_model = {plan.model.name: plan for plan in plans}
    by_both = {(plan.model.name, plan.host.name): plan for plan in plans}
    missing = dict.fromkeys(spec.name for spec, _ in pairs if spec.name not in by_model)
    if missing:
        raise InvalidDocument("options", [BrokenRule("/baseline", "", f"no baseline is a plan of {', '.join(missing)}")])
    return [by_both.get((spec.name, host.name), by_model[spec.name]) for spec, host in pairs]


def _report(checked: Checked, format: CheckFormat, out: Path | None) -> None:
    report = REPORTERS[format](checked)
    if out is not None:
        save(out, report)
    to_stdout = report if out is None or format is CheckFormat.JSON else REPORTERS[CheckFormat.TEXT](checked)
    print_text(to_stdout)


def _exit_code(checked: Checked, soft_fail: bool) -> int:
    if checked.refused:
        return BAD_INPUT
    answers = [result.fits for result in checked.results]
    if False in answers and not soft_fail:
        return PROVEN_NO
    return UNDECIDED if None in answers else YES
