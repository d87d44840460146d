"""`emplace doctor`: what this machine has and lacks for each thing that Emplace does."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from rich.table import Table as TextTable

from emplace.app.cli.exit_codes import BAD_INPUT, YES
from emplace.app.cli.options import Format, OutputFormat
from emplace.app.cli.output import as_json, print_text, show
from emplace.extras import EXTRAS
from emplace.hardware.gpus import read_gpus
from emplace.hardware.machine import read_machine
from emplace.local_store import emplace_home
from emplace.placement.errors import ToolError
from emplace.placement.units import show_gib


class Health(StrEnum):
    """`absent` is a part that one can do without; `broken` is one that is needed, or is there and does not work."""

    OK = "ok"
    ABSENT = "absent"
    BROKEN = "broken"


@dataclass(frozen=True)
class Examined:
    what: str
    health: Health
    detail: str


def doctor(format: Format = OutputFormat.TEXT) -> int:
    """Say what this machine lacks: compiled functions, packages, the service's database, cores, memory.

    Exit code: 0 nothing is broken, though parts may be absent; 2 something is."""
    findings = list(examine())
    if format is OutputFormat.JSON:
        print_text(as_json([asdict(each) for each in findings]))
    else:
        table = TextTable(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
        for each in findings:
            table.add_row(each.what, each.health, each.detail)
        show(table)
    return BAD_INPUT if any(each.health is Health.BROKEN for each in findings) else YES


def examine() -> Iterator[Examined]:
    """Each part of the machine in turn."""
    yield Examined("python", Health.OK, f"{platform.python_version()}, emplace {version('emplace')}")
    yield _imported("compiled functions", ["emplace.solver.native"], "make setup compiles them; that needs g++ and Python's headers")
    yield _imported("solver", ["highspy"], "pip install . in a checkout of Emplace")
    lack = "the best plans, and checks that take a search, need it: pip install '.[solve]' in a checkout of Emplace"
    yield _imported("exact solver", ["ortools.sat.python.cp_model", *EXTRAS["solve"]], lack, optional=True)
    machine = read_machine()
    installed = os.cpu_count() or machine.cores
    yield Examined("cores", Health.OK, f"{machine.cores} of {installed} may be used (cpuset, quota); {machine.cpu_model}")
    yield Examined("memory", Health.OK, f"{show_gib(machine.memory_bytes)} may be used")
    yield _tried("GPUs", lambda: ", ".join(f"{gpu.name}" for gpu in read_gpus()) or "none")
    yield _tried("EMPLACE_HOME", _home)
    yield from _execution()
    yield from _service()


def _execution() -> Iterator[Examined]:
    lack = "profiles and runs need it: pip install '.[execute]' in a checkout of Emplace (docs/dependencies.md)"
    for package in EXTRAS["execute"]:
        yield _imported(package, [package], lack, optional=True)


def _service() -> Iterator[Examined]:
    packages = _imported(
        "service", list(EXTRAS["serve"]), "serve, worker and keys need it: pip install '.[serve]' in a checkout of Emplace", optional=True
    )
    yield packages
    if packages.health is Health.OK:
        yield _tried("database", _database)


def _imported(what: str, modules: list[str], lack: str, *, optional: bool = False) -> Examined:
    """Whether the modules can be imported, by importing them."""
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            return Examined(what, Health.ABSENT if optional else Health.BROKEN, f"{error.name} is not installed; {lack}")
        except (ImportError, OSError) as error:
            return Examined(what, Health.BROKEN, f"{module} is installed and can't be used: {error}")
    versions = {name: _version(name) for name in dict.fromkeys(module.partition(".")[0] for module in modules) if name != "emplace"}
    return Examined(what, Health.OK, ", ".join(f"{name} {found}".strip() for name, found in versions.items()))


def _version(package: str) -> str:
    found = getattr(import_module(package), "__version__", "")
    return found if isinstance(found, str) else ""


def _tried(what: str, look: Callable[[], str]) -> Examined:
    try:
        return Examined(what, Health.OK, look())
    except (ToolError, OSError) as error:
        return Examined(what, Health.BROKEN, str(error))


def _home() -> str:
    """Raises ToolError where what is measured could not be kept."""
    home = emplace_home()
    nearest = next(path for path in (home, *home.parents) if path.exists())
    if not nearest.is_dir():
        raise ToolError(f"{nearest} is no folder: set EMPLACE_HOME to one, or to where one can be made")
    if not os.access(nearest, os.W_OK):
        raise ToolError(f"{nearest} can't be written: set EMPLACE_HOME to a folder that can")
    return str(home)


def _database() -> str:
    """Where the service's database is and of which version; nothing is made or changed. Raises ToolError."""
    from emplace.app.database.connection import Database, parsed_url, shown_url
    from emplace.app.database.migrate import revisions
    from emplace.app.settings import Settings

    url = parsed_url(Settings.from_environment().database_url)
    shown = shown_url(url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return f"{shown} is not there yet: 'emplace serve' makes it"
    database = Database(url.render_as_string(hide_password=False), patience_s=5.0)
    try:
        found, newest = revisions(database)
    finally:
        database.close()
    if found == newest:
        return f"{shown} is of version {found}"
    return f"{shown} is of version {found or 'none'}; the next 'emplace serve' or 'worker' brings it to {newest}"
