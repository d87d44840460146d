"""From what is asked, and a config, to checks: each model on each host with the settings that are for both."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from emplace.app.cli.asked import CheckArguments
from emplace.app.cli.before import Against
from emplace.app.cli.checking import Check
from emplace.app.cli.config import Acknowledged, ConfigFile, Override, acknowledgement
from emplace.app.cli.inputs import plan_options, read_cost_model, read_model, read_plan, read_stack
from emplace.app.reports.checked import RefusedCheck, refused
from emplace.app.reports.outcome import Strictness
from emplace.gate import Budgets
from emplace.placement.catalog import LOCAL_HOST, host_names, model_names, stack_names
from emplace.placement.errors import BrokenRule, EmplaceError, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import DEFAULT_LIMIT_S, Plan, PlanOptions
from emplace.placement.reading import from_data
from emplace.planning import resolve_host

_BUDGETS = ("max_step_time_us", "min_throughput", "max_regression", "max_power_w", "sure")
_NO_OPTIONS = (*_BUDGETS, "cost_model", "stack", "level")


@dataclass(frozen=True)
class Questions:
    """What is to be checked."""

    checks: tuple[Check, ...]
    bad: tuple[RefusedCheck, ...]
    """Models that can't be read."""
    num_off: int = 0
    """Models on hosts that the config says not to check."""


@dataclass(frozen=True)
class _Pair:
    source: str
    model: ModelSpec
    where: str
    """The host as it is named."""
    host: HostSpec
    settings: dict[str, Any]


def questions(asked: CheckArguments, file: ConfigFile | None) -> Questions:
    """Every model on every host. Raises InvalidDocument and UnknownName for what is asked of no model in particular."""
    of_config = None if file is None else _Resolved(file)
    sources = _expanded(asked.models) if asked.models or of_config is None else of_config.models()
    hosts = asked.hosts or (() if of_config is None else of_config.hosts)
    specs, bad = _read_models(sources)
    known = [(where, resolve_host(where)) for where in dict.fromkeys(hosts)]
    pairs = [
        _Pair(source, model, where, host, ({} if of_config is None else of_config.settings(source, where)) | asked.settings)
        for source, model in specs
        for where, host in known
    ]
    wanted = [pair for pair in pairs if pair.settings.get("level") != Strictness.OFF]
    baselines = _baselines(wanted, asked)
    against = Against(asked.against) if asked.against else None
    checks = [_check(asked, of_config, pair, baseline, against) for pair, baseline in zip(wanted, baselines, strict=True)]
    return Questions(tuple(checks), tuple(bad), len(pairs) - len(wanted))


def _check(asked: CheckArguments, of_config: _Resolved | None, pair: _Pair, baseline: Plan | None, against: Against | None) -> Check:
    settings = pair.settings
    return Check(
        source=pair.source,
        model=pair.model,
        host=pair.host,
        budgets=_budgets(settings, baseline),
        options=_options(settings),
        whole=asked.whole,
        cost_model=_cost_model(settings.get("cost_model")),
        stack=read_stack(settings.get("stack")),
        server=asked.server,
        where=pair.where,
        why=asked.why,
        before=None if against is None else against.before(pair.source, pair.where, pair.model, pair.host),
        max_regression=settings.get("max_regression"),
        level=Strictness(settings.get("level", Strictness.ERROR)),
        acknowledged=tuple(
            acknowledgement(each, date.today()) for each in (of_config.acknowledged(pair.source, pair.where) if of_config else ())
        ),
    )


class _Resolved:
    """A config with its patterns and paths followed from its folder."""

    def __init__(self, file: ConfigFile) -> None:
        self._file = file
        self._folder = file.path.parent
        self._matched: dict[tuple[str | int, ...], set[str]] = {}
        config = file.config
        self.hosts = tuple(self._path(name, (*host_names(), LOCAL_HOST)) for name in config.hosts)
        entries: tuple[tuple[str, Sequence[Override | Acknowledged]], ...] = (
            ("override", config.override),
            ("acknowledged", config.acknowledged),
        )
        for kind, listed in entries:
            for number, entry in enumerate(listed):
                self._matched[kind, number] = {_key(source) for source in self._files(entry.models or (), (kind, number, "models"))}
                for index, host in enumerate(entry.hosts or ()):
                    if host not in config.hosts:
                        raise file.broken((kind, number, "hosts", index), repr(host), "must be one of hosts")

    def models(self) -> list[str]:
        """What `models` match. Raises InvalidDocument for a pattern that matches nothing."""
        return self._files(self._file.config.models, ("models",))

    def settings(self, source: str, where: str) -> dict[str, Any]:
        """What is stated for all, then what overrides state that are for both: the last one wins."""
        config = self._file.config
        settings = config.stated()
        for number, override in enumerate(config.override):
            if self._is_for(("override", number), override, source, where):
                settings |= override.stated()
        if "cost_model" in settings:
            settings["cost_model"] = self._path(settings["cost_model"], ())
        if "stack" in settings:
            settings["stack"] = self._path(settings["stack"], tuple(stack_names()))
        return settings

    def acknowledged(self, source: str, where: str) -> Iterator[Acknowledged]:
        """What is known of a model on a host."""
        for number, entry in enumerate(self._file.config.acknowledged):
            if self._is_for(("acknowledged", number), entry, source, where):
                yield entry

    def _is_for(self, entry_of: tuple[str, int], entry: Override | Acknowledged, source: str, where: str) -> bool:
        hosts = {self._path(name, (*host_names(), LOCAL_HOST)) for name in entry.hosts or ()}
        return (entry.models is None or _key(source) in self._matched[entry_of]) and (entry.hosts is None or where in hosts)

    def _files(self, patterns: Sequence[str], parts: tuple[str | int, ...]) -> list[str]:
        found: list[str] = []
        for index, pattern in enumerate(patterns):
            names = [pattern] if pattern in model_names() else _expanded([self._path(pattern, ())])
            if not any(name in model_names() or Path(name).exists() for name in names):
                raise self._file.broken((*parts, index), repr(pattern), "matches no file and is no built-in model")
            found += names
        return list(dict.fromkeys(found))

    def _path(self, name: str, builtin: Sequence[str]) -> str:
        return name if name in builtin else os.path.relpath(self._folder / name)


def _key(source: str) -> str:
    """What tells two models apart, however they are named."""
    return source if source in model_names() else os.path.realpath(source)


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
    given = {key: value for key, value in settings.items() if key not in _NO_OPTIONS}
    if "work_limit" not in given:
        given.setdefault("time_limit", DEFAULT_LIMIT_S)
    return plan_options(**given)


def _budgets(settings: dict[str, Any], baseline: Plan | None) -> Budgets:
    """Raises InvalidDocument."""
    stated = {key: settings[key] for key in _BUDGETS if key in settings}
    if baseline is None:
        stated.pop("max_regression", None)
        return from_data(stated, Budgets, source="options")
    return from_data(stated | {"baseline": baseline}, Budgets, source="options")


def _baselines(pairs: Sequence[_Pair], asked: CheckArguments) -> Sequence[Plan | None]:
    """For each pair the baseline of the model's name on the host, else of the model's name alone. Raises InvalidDocument."""
    if asked.baselines and "max_regression" not in asked.settings:
        raise InvalidDocument("options", [BrokenRule("/max_regression", "", "--baseline and --max-regression go together")])
    if "max_regression" in asked.settings and not (asked.baselines or asked.against):
        raise InvalidDocument("options", [BrokenRule("/max_regression", "", "--max-regression goes with --baseline or --against")])
    if asked.against and (asked.baselines or asked.server):
        raise InvalidDocument("options", [BrokenRule("/against", "", "--against goes with neither --baseline nor --server")])
    plans = [read_plan(path) for path in asked.baselines]
    if not plans:
        return [None] * len(pairs)
    names = Counter((plan.model.name, plan.host.name) for plan in plans)
    twice = [f"{model} on {host}" for (model, host), count in names.items() if count > 1]
    if twice:
        raise InvalidDocument("options", [BrokenRule("/baseline", "", f"more than one baseline is a plan of {', '.join(twice)}: give one")])
    by_model = {plan.model.name: plan for plan in plans}
    by_both = {(plan.model.name, plan.host.name): plan for plan in plans}
    missing = dict.fromkeys(pair.model.name for pair in pairs if pair.model.name not in by_model)
    if missing:
        raise InvalidDocument("options", [BrokenRule("/baseline", "", f"no baseline is a plan of {', '.join(missing)}")])
    return [by_both.get((pair.model.name, pair.host.name), by_model[pair.model.name]) for pair in pairs]


@cache
def _cost_model(path: str | Path | None) -> Any:
    return read_cost_model(None if path is None else Path(path))
