"""What `emplace check` does: every model on every host, one report, one exit code."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emplace.app.cli.checking import Check, check_all
from emplace.app.cli.exit_codes import BAD_INPUT, PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.inputs import plan_options, read_cost_model, read_model, read_plan, read_stack
from emplace.app.cli.options import CheckFormat
from emplace.app.cli.output import note, print_text, save
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.check import REPORTERS
from emplace.app.reports.checked import Checked, RefusedCheck, refused
from emplace.gate import Budgets, CheckResult
from emplace.placement.errors import BrokenRule, EmplaceError, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import DEFAULT_LIMIT_S, Plan, PlanOptions
from emplace.placement.reading import from_data
from emplace.planning import resolve_host

_BUDGETS = ("max_step_time_us", "min_throughput", "max_regression", "sure")
_PRICES = ("cost_model", "stack")


@dataclass(frozen=True)
class Asked:
    """What the command line asks."""

    models: tuple[str, ...]
    hosts: tuple[str, ...]
    settings: dict[str, Any]
    """The options and budgets that are given, by their names in documents."""
    baselines: tuple[Path, ...] = ()
    whole: bool = False
    """Whether the best plan is looked for too."""
    server: str | None = None


def gate(asked: Asked, format: CheckFormat, out: Path | None, *, soft_fail: bool) -> int:
    """The exit code. Raises InvalidDocument and UnknownName for what is asked of no model in particular."""
    specs, bad = _read_models(_expanded(asked.models))
    where = [resolve_host(host) for host in dict.fromkeys(asked.hosts)]
    prices = (read_cost_model(asked.settings.get("cost_model")), read_stack(asked.settings.get("stack")))
    pairs = [(source, spec, host) for source, spec in specs for host in where]
    limits = _budgets([(spec, host) for _, spec, host in pairs], asked)
    chosen = _options(asked.settings)
    checks = [Check(*pair, limit, chosen, asked.whole, *prices, asked.server) for pair, limit in zip(pairs, limits, strict=True)]
    with StatusLine() as status:
        answers = list(check_all(checks, status.say, status.monitor))
    results = tuple(each for each in answers if isinstance(each, CheckResult))
    checked = Checked(results, (*bad, *(each for each in answers if isinstance(each, RefusedCheck))))
    for each in checked.refused:
        note(f"emplace: {each.message}")
    _report(checked, format, out)
    return _exit_code(checked, soft_fail)


def _expanded(models: Sequence[str]) -> list[str]:
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


def _options(settings: dict[str, Any]) -> PlanOptions:
    """What is no budget and no price. Raises InvalidDocument."""
    given = {key: value for key, value in settings.items() if key not in (*_BUDGETS, *_PRICES)}
    if "work_limit" not in given:
        given.setdefault("time_limit", DEFAULT_LIMIT_S)
    return plan_options(**given)


def _budgets(pairs: Sequence[tuple[ModelSpec, HostSpec]], asked: Asked) -> list[Budgets]:
    """One set of budgets for each model on each host. Raises InvalidDocument."""
    stated = {key: asked.settings[key] for key in _BUDGETS if key in asked.settings}
    if bool(asked.baselines) != ("max_regression" in stated):
        raise InvalidDocument("options", [BrokenRule("/max_regression", "", "--baseline and --max-regression go together")])
    if not asked.baselines:
        return [from_data(stated, Budgets, source="options")] * len(pairs)
    return [from_data(stated | {"baseline": plan}, Budgets, source="options") for plan in _baselines(pairs, asked.baselines)]


def _baselines(pairs: Sequence[tuple[ModelSpec, HostSpec]], paths: Sequence[Path]) -> list[Plan]:
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
