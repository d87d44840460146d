"""A fleet: which of its jobs get servers from the stock, of which host and how many, and what is left over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.stack import Stack
from emplace.runtime.side_by_side import in_processes
from emplace.studies.fleet import Hogwild
from emplace.studies.fleet_program import HostStock, JobOption, assign
from emplace.studies.fleet_spec import SOURCE, FleetSpec, WantedJob, stocked_hosts, wanted_jobs
from emplace.studies.jobs import NEEDS, Wanted
from emplace.studies.power import refuse_unknown
from emplace.studies.sized_job import (
    SizedJob,
    SizeOutcome,
    SizeTask,
    TrainingMode,
    job_of_counts,
    job_of_plan,
    out_of_reach,
    tasks_on,
)
from emplace.studies.solving import Tell
from emplace.studies.target import Target


class WhyLeft(StrEnum):
    """Why a job has no servers."""

    STOCK = "others take what it needs of the stock"
    TOO_SMALL = "no job that the stock allows is enough"
    UNDECIDED = "no job that is enough was found within the limit"


class PossibleSize(Document):
    """A size that is enough, of which none takes more nodes and more servers than another on its host."""

    host: str
    training: TrainingMode
    nodes: int
    parameter_servers: int
    price: float
    """Servers, watts or money an hour: what the best assignment has least of."""


class AssignedJob(Document):
    """A job of the fleet, and what it gets."""

    name: str
    model: str
    target: Target
    job: SizedJob | None
    """None where it is left over."""
    why_left: WhyLeft | None
    sizes: tuple[PossibleSize, ...]
    """What the integer program chose from."""
    undecided: tuple[str, ...]
    """Hosts on which there may be more sizes."""


class StockLeft(Document):
    """What there is of a host, and what no job takes."""

    host: str
    nodes: int
    nodes_left: int
    parameter_servers: int
    parameter_servers_left: int


class FleetAssignment(Document):
    """The answer of `emplace size --fleet`."""

    schema_version: Literal[1] = 1
    wanted: Wanted
    hogwild: Hogwild
    jobs: tuple[AssignedJob, ...]
    stock: tuple[StockLeft, ...]
    is_best: bool
    """Whether no choice of these sizes gives servers to more jobs, nor to as many for less."""

    @property
    def left_over(self) -> tuple[AssignedJob, ...]:
        return tuple(job for job in self.jobs if job.job is None)

    @property
    def is_proven(self) -> bool:
        """Whether no other sizes could change it: all are synchronous, and found or proven too small."""
        sizes = (size for job in self.jobs for size in job.sizes)
        return (
            self.is_best
            and not any(job.undecided for job in self.jobs)
            and all(size.training is TrainingMode.SYNCHRONOUS for size in sizes)
        )


@dataclass(frozen=True)
class _Sizes:
    """Every size of one job on one host, trained one way."""

    jobs: tuple[SizedJob, ...]
    is_complete: bool


def run_fleet(
    fleet: FleetSpec,
    options: PlanOptions,
    stack: Stack | None,
    wanted: Wanted,
    hogwild: Hogwild,
    most_nodes: int,
    processes: int,
    tell: Tell,
) -> FleetAssignment:
    """Find every size of every job that is enough, then choose. Raises InvalidDocument, before anything is solved, for a job that the whole stock is too small for, and what else is wrong."""
    jobs, hosts = wanted_jobs(fleet, options, stack), stocked_hosts(fleet)
    if wanted in NEEDS:
        refuse_unknown(hosts, NEEDS[wanted], f"the objective {wanted}")
    tasks = [(number, task) for number, job in enumerate(jobs) for task in _tasks(job, hosts, wanted, hogwild, most_nodes)]
    _refuse_out_of_reach(jobs, tasks)
    found: list[_Sizes] = []
    for sizes in in_processes([task for _, task in tasks], _sizes, processes):
        found.append(sizes)
        tell(len(found), len(tasks))
    return _Answer(jobs, hosts, tasks, found).given(wanted, hogwild)


def _tasks(job: WantedJob, hosts: Sequence[HostSpec], wanted: Wanted, hogwild: Hogwild, most_nodes: int) -> Iterator[SizeTask]:
    for host in hosts:
        yield from tasks_on(host, job.setting, job.target, wanted, hogwild, min(host.nodes, most_nodes))


def _refuse_out_of_reach(jobs: Sequence[WantedJob], tasks: Sequence[tuple[int, SizeTask]]) -> None:
    broken = []
    for number, job in enumerate(jobs):
        reached = out_of_reach([task for of, task in tasks if of == number])
        if reached is None:
            continue
        most, why = reached
        if job.target.examples is not None:
            key, more = "deadline", f"write deadline: {job.target.examples / most / 3600:.3g}h or later"
        else:
            key, more = "throughput", f"write throughput: {most:.0f} or less"
        broken.append(BrokenRule(f"/jobs/{number}/{key}", job.name, f"{why}; {more}, or put more in stock"))
    if broken:
        raise InvalidDocument(SOURCE, broken)


def _sizes(task: SizeTask) -> _Sizes:
    found = SizedJob(host=task.host.name, training=task.training, outcome=SizeOutcome.FOUND)
    if task.training is TrainingMode.SYNCHRONOUS:
        search = task.synchronous()
        jobs = tuple(job_of_plan(task, search, plan, found) for plan in search.smallest())
        return _Sizes(jobs, search.is_complete and not search.undecided)
    servers, counts = _servers(task.host), task.asynchronous()
    counts.most_servers = max(task.most_nodes, servers)
    return _Sizes(tuple(job_of_counts(task, counts, each, found) for each in counts.smallest(task.most_nodes, servers)), True)


@dataclass(frozen=True)
class _Answer:
    """Sizes are those of each task; a task is of a job by number."""

    jobs: Sequence[WantedJob]
    hosts: Sequence[HostSpec]
    tasks: Sequence[tuple[int, SizeTask]]
    sizes: Sequence[_Sizes]

    def given(self, wanted: Wanted, hogwild: Hogwild) -> FleetAssignment:
        every = [(number, task, job) for (number, task), sizes in zip(self.tasks, self.sizes, strict=True) for job in sizes.jobs]
        options = [self._option(*each) for each in every]
        chosen = assign(options, [HostStock(host.nodes, _servers(host)) for host in self.hosts])
        taken = {every[number][0]: every[number][2] for number in chosen.options}
        return FleetAssignment(
            wanted=wanted,
            hogwild=hogwild,
            jobs=tuple(self._assigned(number, taken.get(number)) for number in range(len(self.jobs))),
            stock=tuple(self._left(number, [options[each] for each in chosen.options]) for number in range(len(self.hosts))),
            is_best=chosen.is_best,
        )

    def _option(self, number: int, task: SizeTask, job: SizedJob) -> JobOption:
        assert job.running is not None
        nodes, servers = job.running.nodes, job.running.parameter_servers
        return JobOption(number, self._host(task.host.name), nodes, servers, task.prices.of_job(nodes, servers))

    def _host(self, name: str) -> int:
        return next(number for number, host in enumerate(self.hosts) if host.name == name)

    def _assigned(self, number: int, job: SizedJob | None) -> AssignedJob:
        wanted = self.jobs[number]
        of_job = [(task, found) for (of, task), found in zip(self.tasks, self.sizes, strict=True) if of == number]
        options = [(task, self._option(number, task, each)) for task, found in of_job for each in found.jobs]
        undecided = tuple(task.host.name for task, found in of_job if not found.is_complete)
        return AssignedJob(
            name=wanted.name,
            model=wanted.setting.model_on(self.hosts[0]).name,
            target=wanted.target,
            job=job,
            why_left=None if job else _why_left(has_sizes=bool(options), is_decided=not undecided),
            sizes=tuple(_possible(task, option) for task, option in options),
            undecided=undecided,
        )

    def _left(self, number: int, taken: Sequence[JobOption]) -> StockLeft:
        host, of_host = self.hosts[number], [option for option in taken if option.host == number]
        return StockLeft(
            host=host.name,
            nodes=host.nodes,
            nodes_left=host.nodes - sum(option.nodes for option in of_host),
            parameter_servers=_servers(host),
            parameter_servers_left=_servers(host) - sum(option.servers for option in of_host),
        )


def _why_left(*, has_sizes: bool, is_decided: bool) -> WhyLeft:
    if has_sizes:
        return WhyLeft.STOCK
    return WhyLeft.TOO_SMALL if is_decided else WhyLeft.UNDECIDED


def _possible(task: SizeTask, option: JobOption) -> PossibleSize:
    return PossibleSize(
        host=task.host.name, training=task.training, nodes=option.nodes, parameter_servers=option.servers, price=option.price
    )


def _servers(host: HostSpec) -> int:
    return 0 if host.remote_servers is None else host.remote_servers.count
