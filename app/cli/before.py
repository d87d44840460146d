"""What a check is held against: the documents at a commit of the repository, or a plan that was kept."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from emplace.app.cli.inputs import read_plan
from emplace.placement.catalog import find_model, host_names, model_names
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, EmplaceError, InvalidDocument, ToolError
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.reading import read_text

D = TypeVar("D", bound=Document)
_WEB = ("http://", "https://")
_STORED = re.compile(r"(?P<service>https?://.+?)/(?:v1/)?plans/(?P<id>[A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class Before:
    """One side of a comparison: a plan, or the documents to plan with. Neither where the model is new."""

    name: str
    """The commit as it was named, or the plan's file or address."""
    plan: Plan | None = None
    model: ModelSpec | None = None
    host: HostSpec | None = None
    unreadable: str | None = None
    """Why the documents of then can't be read."""


class Against:
    """What `--against` names: plans, in files or of a service, or one commit."""

    def __init__(self, names: Sequence[str]) -> None:
        kept = [name for name in names if name.startswith(_WEB) or Path(name).is_file()]
        refs = [name for name in names if name not in kept]
        if len(refs) > 1 or (refs and kept):
            raise InvalidDocument(
                "options", [BrokenRule("/against", ", ".join(names), "takes one commit, or plans: files, or those of a service")]
            )
        self._plans = [(name, plan_of_a_service(name) if name.startswith(_WEB) else read_plan(Path(name))) for name in kept]
        self._ref = refs[0] if refs else None
        if self._ref is not None:
            _refuse_unknown(self._ref)

    def before(self, source: str, where: str, model: ModelSpec, host: HostSpec) -> Before:
        """What stood there of this model on this host. Raises ToolError where git fails."""
        if self._ref is None:
            named = ((path, plan) for path, plan in self._plans if (plan.model.name, plan.host.name) == (model.name, host.name))
            path, plan = next(named, (", ".join(path for path, _ in self._plans), None))
            return Before(path, plan=plan)
        try:
            then = find_model(source) if source in model_names() else _at(self._ref, Path(source), ModelSpec)
            there = host if where in host_names() or not Path(where).exists() else _at(self._ref, Path(where), HostSpec)
        except EmplaceError as error:
            if isinstance(error, ToolError):
                raise
            return Before(self._ref, unreadable=str(error))
        return Before(self._ref, model=then, host=there or host)


def plan_of_a_service(address: str) -> Plan:
    """The plan that a service keeps at this address, as its API or its dashboard names it. Raises InvalidDocument and ToolError."""
    from emplace.client import Client

    found = _STORED.fullmatch(address)
    if found is None:
        rule = "must be the address of a service's plan, such as https://emplace.example/plans/ID"
        raise InvalidDocument("options", [BrokenRule("/against", address, rule)])
    with Client(found["service"]) as client:
        stored = client.get_plan(found["id"])
    if stored.plan is None:
        raise ToolError(f"--against {address}: this plan is {stored.state}, not done; wait for it, or name another")
    return stored.plan


def _refuse_unknown(ref: str) -> None:
    """Raises ToolError for what git does not know."""
    if _git(Path.cwd(), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").returncode:
        fetch = " ".join(["git fetch", *ref.split("/", 1)]) if "/" in ref else "git fetch"
        raise ToolError(f"--against {ref}: no file, and git knows no such commit here; in a shallow clone fetch it first: {fetch}")


def _at(ref: str, path: Path, kind: type[D]) -> D | None:
    """The document that stood in this file; None where there was none. Raises InvalidDocument, ToolError."""
    in_work_tree = _work_tree(path.parent)  # elsewhere git lists nothing, as of a file that is new
    listed = _git(path.parent, "ls-tree", "--name-only", "--end-of-options", ref, "--", path.name)
    for asked in (in_work_tree, listed):
        if asked.returncode:
            raise ToolError(f"--against {ref}: {path}: git: {asked.stderr.decode(errors='replace').strip()}")
    if not listed.stdout:
        return None
    shown = _git(path.parent, "show", "--end-of-options", f"{ref}:./{path.name}")
    source = f"{path} at {ref}"
    try:
        return read_text(shown.stdout.decode("utf-8-sig"), kind, source=source, as_json=path.suffix == ".json")
    except UnicodeDecodeError:
        raise InvalidDocument(source, [BrokenRule("", "", "must be UTF-8 text")]) from None


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What git says of the repository that the folder lies in, even where a hook of git names another work tree. Raises ToolError."""
    environment = {name: value for name, value in os.environ.items() if name not in _names_a_repository()}
    return _run(folder, environment, *arguments)


@cache
def _work_tree(folder: Path) -> subprocess.CompletedProcess[bytes]:
    return _git(folder, "rev-parse", "--show-toplevel")


@cache
def _names_a_repository() -> frozenset[str]:
    """The variables by which git tells its hooks which repository they serve."""
    return frozenset(_run(Path.cwd(), dict(os.environ), "rev-parse", "--local-env-vars").stdout.decode().split())


def _run(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        raise ToolError("--against a commit needs git, which is not installed") from None
