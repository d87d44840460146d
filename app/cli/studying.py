"""What the commands of studies share: hosts by name, progress on stderr, and the document in the asked format."""

from __future__ import annotations

import sys
from collections.abc import Set
from typing import Annotated

import typer

from emplace.app.cli.exit_codes import PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.inputs import read_stack
from emplace.app.cli.output import note
from emplace.app.cli.progress import StatusLine
from emplace.hardware.machine import cores_here
from emplace.placement.catalog import find_model, host_names, template_settings
from emplace.placement.catalog.suite import SuiteSettings
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, PlanStatus
from emplace.planning import resolve_host
from emplace.studies.grid import Setting

ALL = "all"
TOLD_EVERY = 10
"""Where stderr is no terminal, progress is a line for every tenth part of the work."""

OneHost = Annotated[
    list[str] | None, typer.Option("--host", metavar="HOST", help="A built-in host, a host file, or 'local'; repeat it for several.")
]
Hosts = Annotated[str | None, typer.Option("--hosts", metavar="A,B|all", help="Several hosts with commas between, or 'all' built-in ones.")]
Processes = Annotated[
    int | None, typer.Option("--processes", min=1, help="Solve in so many processes at once. Default: one for each core.")
]
Gap = Annotated[float | None, typer.Option("--gap", help="Stop once a plan is proven this close to the best. Default: 0.01.")]


def read_hosts(one: list[str] | None, several: str | None) -> list[HostSpec]:
    """Each host once. Raises InvalidDocument where none is named, UnknownName."""
    names = [*(one or []), *(name.strip() for name in (several or "").split(",") if name.strip())]
    if not names:
        rule = "name at least one: --host big-basin-32g, --hosts cpu-dual-socket,big-basin-32g or --hosts all"
        raise InvalidDocument("--hosts", [BrokenRule("", "", rule)])
    named = [each for name in names for each in (host_names() if name == ALL else [name])]
    return [resolve_host(name) for name in dict.fromkeys(named)]


def setting_of(model: str, settings: list[str] | None, options: PlanOptions, stack: str | None) -> Setting:
    """Raises UnknownName, InvalidDocument."""
    found: SuiteSettings | ModelSpec = template_settings(model, settings or []) or find_model(model)
    return Setting(found, options, read_stack(stack))


def cores(processes: int | None) -> int:
    return processes or cores_here()


def exit_code(statuses: Set[PlanStatus]) -> int:
    """The code that a study ends with whose points end so."""
    if PlanStatus.UNDECIDED in statuses:
        return UNDECIDED
    return PROVEN_NO if statuses == {PlanStatus.INFEASIBLE} else YES


class Counted:
    """Tells how much of long work is done: a line that is rewritten on a terminal, a few lines elsewhere."""

    def __init__(self, status: StatusLine, what: str) -> None:
        self._status, self._what = status, what
        self._shown = sys.stderr.isatty()
        self._told = 0

    def __call__(self, done: int, all_: int) -> None:
        self._status.say(f"{done} of {all_} {self._what}")
        if not self._shown and done < all_ and done * TOLD_EVERY // all_ > self._told:
            self._told = done * TOLD_EVERY // all_
            note(f"{done} of {all_} {self._what}")
