"""The built-in models, hosts and stacks: YAML files in models/, hosts/ and stacks/, with their sources inside, and one template."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from emplace.placement.catalog.suite import SUITE, SuiteSettings, suite_settings
from emplace.placement.errors import BrokenRule, InvalidDocument, UnknownName
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.reading import read_file, read_text
from emplace.placement.stack import Stack

LOCAL_HOST = "local"
"""The host that is discovered instead of listed."""


def model_names() -> list[str]:
    """The built-in models, sorted by name; the template with its own settings among them."""
    return sorted([*_names("models"), SUITE])


def host_names() -> list[str]:
    """The built-in hosts, sorted by name; without `local`."""
    return list(_names("hosts"))


def stack_names() -> list[str]:
    """The built-in software stacks, sorted by name."""
    return list(_names("stacks"))


@cache
def builtin_model(name: str) -> ModelSpec:
    """The built-in model of that name. Raises UnknownName."""
    if name == SUITE:
        return SuiteSettings().model()
    return read_text(_text("models", name), ModelSpec, source=f"built-in model {name}", as_json=False)


@cache
def builtin_host(name: str) -> HostSpec:
    """The built-in host of that name. Raises UnknownName."""
    return read_text(_text("hosts", name), HostSpec, source=f"built-in host {name}", as_json=False)


@cache
def builtin_stack(name: str) -> Stack:
    """The built-in software stack of that name. Raises UnknownName."""
    return read_text(_text("stacks", name), Stack, source=f"built-in stack {name}", as_json=False)


def find_model(name_or_path: str) -> ModelSpec:
    """A built-in model by name, else the document in that file. Raises UnknownName, InvalidDocument."""
    if name_or_path in model_names():
        return builtin_model(name_or_path)
    return read_file(_existing(name_or_path, "model", model_names()), ModelSpec)


def template_settings(name_or_path: str, given: Sequence[str]) -> SuiteSettings | None:
    """The settings of a template, which only a template has; None of any other model where none are given. Raises InvalidDocument."""
    if name_or_path == SUITE:
        return suite_settings(given)
    if given:
        rule = f"only the template {SUITE} has settings; edit the file of another model ('emplace models {name_or_path}' prints a built-in one)"
        raise InvalidDocument("--set", [BrokenRule("", name_or_path, rule)])
    return None


def model_file(name_or_path: str) -> Path | None:
    """The file that `find_model` reads; None for a built-in model."""
    return None if name_or_path in model_names() else Path(name_or_path)


def find_stack(name_or_path: str) -> Stack:
    """A built-in software stack by name, else the document in that file. Raises UnknownName, InvalidDocument."""
    if name_or_path in stack_names():
        return builtin_stack(name_or_path)
    return read_file(_existing(name_or_path, "stack", stack_names()), Stack)


def find_host(name_or_path: str) -> HostSpec:
    """A built-in host by name, else the document in that file. Raises UnknownName, InvalidDocument."""
    if name_or_path in host_names():
        return builtin_host(name_or_path)
    return read_file(_existing(name_or_path, "host", [*host_names(), LOCAL_HOST]), HostSpec)


def _existing(name_or_path: str, what: str, names: list[str]) -> Path:
    path = Path(name_or_path)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UnknownName(f"{name_or_path}: no built-in {what} of that name and no such file; built in are {', '.join(names)}") from None
    except OSError:
        pass  # read_file says why
    return path


@cache
def _names(folder: str) -> tuple[str, ...]:
    files = resources.files(__name__).joinpath(folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def _text(folder: str, name: str) -> str:
    if name not in _names(folder):
        raise UnknownName(f"no built-in {folder.removesuffix('s')} {name!r}")
    return resources.files(__name__).joinpath(folder, f"{name}.yaml").read_text(encoding="utf-8")
