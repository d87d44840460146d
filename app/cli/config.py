"""`emplace.toml`, or `[tool.emplace]` of pyproject.toml: which models are checked on which hosts, and within which budgets."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from emplace.app.cli.toml_lines import toml_lines
from emplace.app.reports.outcome import Acknowledgement, Strictness
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import MAX_RANKS
from emplace.placement.model import Tier
from emplace.placement.plan import Seconds
from emplace.placement.pointer import pointer_to
from emplace.placement.reading import from_data, text_of
from emplace.placement.reserve import Reserve

CONFIG_NAME = "emplace.toml"
_IN_PROJECT = ("tool", "emplace")
Positive = Annotated[float, Field(strict=True, gt=0)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Rule(StrEnum):
    """What can be acknowledged."""

    CAPACITY = "capacity"
    MAX_STEP_TIME = "max-step-time"
    MIN_THROUGHPUT = "min-throughput"
    MAX_REGRESSION = "max-regression"
    MAX_POWER = "max-power"


class CheckSettings(Document):
    """How models are checked: the options and budgets of the command line, and what comes of a no."""

    level: Strictness | None = None
    nodes: Annotated[int, Field(strict=True, gt=0, le=4096)] | None = None
    ranks: Annotated[int, Field(strict=True, gt=0, le=MAX_RANKS)] | None = None
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)] | None = None
    hbm_reserve: Reserve | None = None
    ddr_reserve: Reserve | None = None
    max_step_time_us: Positive | None = None
    min_throughput: Positive | None = None
    max_regression: Annotated[float, Field(strict=True, ge=0)] | None = None
    """Percent over the step before the change, which `--against` tells."""
    max_power_w: Positive | None = None
    sure: Annotated[bool, Field(strict=True)] | None = None
    time_limit: Seconds | None = None
    work_limit: Seconds | None = None
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] | None = None
    stack: str | None = None
    cost_model: str | None = None

    def stated(self) -> dict[str, Any]:
        """The settings that are stated, by name."""
        return {key: value for key, value in self.to_data().items() if key in CheckSettings.model_fields}


class Override(CheckSettings):
    """Settings of some models on some hosts; absent means all."""

    models: Names | None = None
    hosts: Names | None = None


def _day(value: Any) -> Any:
    """pydantic takes a number for the seconds since 1970."""
    if not isinstance(value, (date, str)):
        raise ValueError("must be a day, such as 2027-01-31")
    return value


class Acknowledged(Document):
    """A broken rule that is known, and is a warning until the end of a day."""

    models: Names | None = None
    hosts: Names | None = None
    rule: Rule
    reason: Annotated[str, Field(min_length=1)]
    until: Annotated[date, BeforeValidator(_day)]


class Config(CheckSettings):
    """The whole file. Patterns and paths count from its folder."""

    models: Names
    hosts: Names
    override: tuple[Override, ...] = ()
    acknowledged: tuple[Acknowledged, ...] = ()


@dataclass(frozen=True)
class ConfigFile:
    """A config and where it was read."""

    path: Path
    config: Config
    prefix: tuple[str, ...]
    """The way to it in its file."""
    text: str

    def broken(self, parts: tuple[str | int, ...], value: str, rule: str) -> InvalidDocument:
        """What a value in it breaks, with its line."""
        return _located(self.text, InvalidDocument(_shown(self.path), [BrokenRule(pointer_to(*self.prefix, *parts), value, rule)]))


def find_config(start: Path) -> ConfigFile | None:
    """The nearest config in this folder or above it, up to the root of the repository. Raises InvalidDocument."""
    for folder in (start, *start.parents):
        if (path := folder / CONFIG_NAME).is_file():
            return read_config(path)
        if (path := folder / "pyproject.toml").is_file() and "emplace" in _table(_data(path)[1], "tool"):
            return read_config(path)
        if (folder / ".git").exists():
            return None
    return None


def read_config(path: Path) -> ConfigFile:
    """The config in a file: of `pyproject.toml` its `[tool.emplace]`. Raises InvalidDocument."""
    text, data = _data(path)
    prefix = _IN_PROJECT if path.name == "pyproject.toml" else ()
    for part in prefix:
        data = _table(data, part)
    try:
        return ConfigFile(path, from_data(data, Config, source=_shown(path), pointer=pointer_to(*prefix)), prefix, text)
    except InvalidDocument as error:
        raise _located(text, error) from None


def _data(path: Path) -> tuple[str, dict[str, Any]]:
    text = text_of(path)
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidDocument(_shown(path), [BrokenRule("", "", f"is no TOML: {error}")]) from None
    except RecursionError:
        raise InvalidDocument(_shown(path), [BrokenRule("", "", "is nested too deep")]) from None


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _located(text: str, error: InvalidDocument) -> InvalidDocument:
    lines = toml_lines(text, [broken.pointer for broken in error.broken_rules])
    return InvalidDocument(error.source, [replace(broken, line=lines[broken.pointer]) for broken in error.broken_rules])


def _shown(path: Path) -> str:
    """From here, where it is below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def acknowledgement(of: Acknowledged, today: date) -> Acknowledgement:
    """What a report says of it."""
    return Acknowledgement(rule=of.rule, reason=of.reason, until=of.until, is_over=today > of.until)
