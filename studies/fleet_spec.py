"""A fleet as a document: jobs with what each must reach, and the hosts in stock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from emplace.placement.catalog import find_model, template_settings
from emplace.placement.catalog.suite import SUITE, SuiteSettings
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument, UnknownName
from emplace.placement.host import MAX_RANKS, Count, HostSpec
from emplace.placement.model import ModelSpec, Name
from emplace.placement.plan import PlanOptions
from emplace.placement.stack import Stack
from emplace.planning import resolve_host
from emplace.studies.grid import Setting
from emplace.studies.target import Amount, Target, target_of

SOURCE = "fleet"
MOST_JOBS = MOST_HOSTS = 100
D = TypeVar("D")


class JobSpec(Document):
    """A model to train, and either a throughput or examples and a deadline."""

    name: Name | None = None
    """The model's where it is not given."""
    model: str | ModelSpec
    """A built-in one, a file, or written out."""
    set: tuple[str, ...] = ()
    """Settings of the template `suite`, such as "sparse=64"."""
    throughput: Amount | None = None
    examples: Amount | None = None
    deadline: str | None = None


class StockSpec(Document):
    """What is there of one host: nodes, and servers such as its `remote_servers`."""

    host: str | HostSpec
    nodes: Count
    parameter_servers: Annotated[int, Field(strict=True, ge=0, le=MAX_RANKS)] = 0


class FleetSpec(Document):
    """The question of `emplace size --fleet`."""

    schema_version: Literal[1]
    jobs: Annotated[tuple[JobSpec, ...], Field(min_length=1, max_length=MOST_JOBS)]
    stock: Annotated[tuple[StockSpec, ...], Field(min_length=1, max_length=MOST_HOSTS)]


@dataclass(frozen=True)
class WantedJob:
    """A job with its model resolved."""

    name: str
    setting: Setting
    target: Target


def wanted_jobs(fleet: FleetSpec, options: PlanOptions, stack: Stack | None) -> list[WantedJob]:
    """Raises InvalidDocument with pointers into the fleet, UnknownName."""
    found: list[WantedJob] = []
    for number, job in enumerate(fleet.jobs):
        with _pointing(f"/jobs/{number}"):
            model = _model(job)
            target = target_of(job.throughput, job.examples, job.deadline)
        name = job.name or (model.name if isinstance(model, ModelSpec) else SUITE)
        if any(name == other.name for other in found):
            raise InvalidDocument(SOURCE, [BrokenRule(f"/jobs/{number}/name", name, "is another job's name too: give each job its own")])
        found.append(WantedJob(name, Setting(model, options, stack), target))
    return found


def stocked_hosts(fleet: FleetSpec) -> list[HostSpec]:
    """Each host with as many nodes and remote servers as are in stock. Raises InvalidDocument with pointers into the fleet, UnknownName."""
    found: list[HostSpec] = []
    for number, stocked in enumerate(fleet.stock):
        with _pointing(f"/stock/{number}"):
            host = stocked.host if isinstance(stocked.host, HostSpec) else _named(stocked.host, "host", resolve_host)
        if any(host.name == other.name for other in found):
            rule = "is in stock twice: name it once, with all its nodes and servers"
            raise InvalidDocument(SOURCE, [BrokenRule(f"/stock/{number}/host", host.name, rule)])
        found.append(_with_stock(host, stocked, f"/stock/{number}"))
    return found


def _model(job: JobSpec) -> ModelSpec | SuiteSettings:
    if isinstance(job.model, ModelSpec):
        return job.model
    return template_settings(job.model, job.set) or _named(job.model, "model", find_model)


def _named(name: str, key: str, find: Callable[[str], D]) -> D:
    try:
        return find(name)
    except UnknownName as error:
        raise InvalidDocument(f"--{key}", [BrokenRule("", "", str(error))]) from None


def _with_stock(host: HostSpec, stocked: StockSpec, where: str) -> HostSpec:
    if not stocked.parameter_servers:
        return host.model_copy(update={"nodes": stocked.nodes, "remote_servers": None})
    if host.remote_servers is None:
        rule = f"must be 0: {host.name} has no remote_servers, so nothing says what a server of it is; add them to the host's document"
        raise InvalidDocument(SOURCE, [BrokenRule(f"{where}/parameter_servers", str(stocked.parameter_servers), rule)])
    remote = host.remote_servers.model_copy(update={"count": stocked.parameter_servers})
    return host.model_copy(update={"nodes": stocked.nodes, "remote_servers": remote})


@contextmanager
def _pointing(where: str) -> Iterator[None]:
    """Let what is wrong with an option of the command line point to the key of its name in the fleet."""
    try:
        yield
    except InvalidDocument as error:
        key = error.source.removeprefix("--") if error.source.startswith("--") else ""
        rules = [BrokenRule(f"{where}/{key}" if key else where, each.value, each.rule) for each in error.broken_rules]
        raise InvalidDocument(SOURCE, rules) from None
