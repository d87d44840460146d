"""`emplace check --init`: a config whose budgets are today's figures and a margin."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date
from importlib.metadata import version
from pathlib import Path

from emplace.app.cli.asked import CheckArguments
from emplace.app.reports.figures import microseconds
from emplace.app.reports.outcome import CheckOutcome
from emplace.placement.catalog import LOCAL_HOST, host_names, model_names, stack_names
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.units import show_gib


def refuse_existing(path: Path) -> None:
    """Raises InvalidDocument where there is one already: its reasons and budgets were somebody's work."""
    if path.exists():
        raise InvalidDocument("options", [BrokenRule("/init", str(path), "is there already; remove it first, or name another --config")])


def config_text(asked: CheckArguments, results: tuple[CheckOutcome, ...], folder: Path, margin_pct: float) -> str:
    """The config of what was asked, by its answers. Paths count from `folder`."""
    head = [
        f"# Written by `emplace check --init` on {date.today()} with emplace {version('emplace')}:",
        f"# budgets are the step and the watts that were predicted then and {margin_pct:g}% on top.",
        f"models = {_list(asked.models, model_names(), folder)}",
        f"hosts = {_list(asked.hosts, [*host_names(), LOCAL_HOST], folder)}",
        *(
            f"{key} = {_value(key, value, folder)}"
            for key, value in asked.settings.items()
            if key not in ("max_step_time_us", "max_power_w")
        ),
    ]
    return "\n".join([*head, *(line for result in results for line in _override(result, folder, margin_pct))]) + "\n"


def _override(result: CheckOutcome, folder: Path, margin_pct: float) -> Iterator[str]:
    source = result.source or result.model
    yield ""
    yield "[[override]]"
    yield f"models = {_list((source,), model_names(), folder)}"
    yield f"hosts = {_list((result.where or result.host,), [*host_names(), LOCAL_HOST], folder)}"
    if result.step_time_us is None:
        yield f'level = "warn"  # {result.summary}'
        return
    memory = result.tightest_memory
    fullest = f"; fullest memory {show_gib(memory.used_bytes)} of {show_gib(memory.capacity_bytes)}, {memory.where}" if memory else ""
    yield f"max_step_time_us = {_with_margin(result.step_time_us, margin_pct):g}  # {microseconds(result.step_time_us)} today{fullest}"
    if result.power_w is not None:
        yield f"max_power_w = {_with_margin(result.power_w, margin_pct):g}  # {result.power_w:,.0f} W today"


def _with_margin(figure: float, margin_pct: float) -> float:
    return float(f"{figure * (1 + margin_pct / 100):.6g}")


def _list(names: tuple[str, ...], builtin: list[str], folder: Path) -> str:
    return json.dumps([name if name in builtin else os.path.relpath(name, folder) for name in names], ensure_ascii=False)


def _value(key: str, value: object, folder: Path) -> str:
    """As TOML spells it."""
    if key == "cost_model" or (key == "stack" and value not in stack_names()):
        value = os.path.relpath(str(value), folder)
    if key == "tiers":
        value = [name.strip() for name in str(value).split(",")]
    return json.dumps(value, ensure_ascii=False)
