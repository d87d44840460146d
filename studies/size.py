"""How large a job must be: on each host the cheapest that reaches a throughput, what each count follows from, and what is known of
smaller ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.ingest import example_bytes
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.stack import Pace
from emplace.runtime.side_by_side import in_processes
from emplace.studies.asynchronous import FleetSearch
from emplace.studies.figures import Figures, figures_of
from emplace.studies.fleet import SPARSE_CPU, TRAINER_CPU, Counts, Fleet, Hogwild
from emplace.studies.grid import Setting
from emplace.studies.jobs import NEEDS, LeastCount, NodesAndServers, ServerPrices, Sized, Wanted
from emplace.studies.power import Running, refuse_unknown, running_job
from emplace.studies.queueing import bounds, limiting
from emplace.studies.solving import Tell
from emplace.studies.sweep import refuse_equal_names
from emplace.studies.synchronous import SizeSearch
from emplace.studies.target import Target

MOST_NODES = 256
WORK_S = 2.0
"""Limit of each of the many solves, where no other is asked for."""
PLACED_GAP, PLACED_WORK_S = 0.02, 1.0
"""Gap and limit of the placements on sparse servers, of which a search needs many."""
_DATASHEET = "rates are datasheets' under a software stack, which nobody measured: `sure` says whether a job is large enough at its slowest"
_FLEET = "asynchronous fleets are reckoned by mean value analysis; their batch, threads and tau are assumed where they are not given"
_READERS = (
    "readers stand beside the job's servers: so many as the network of machines like the host's remote servers asks for; "
    "no document says what reading and decoding take of them"
)
READERS, READER_NETWORK = "readers", "reader_network"
_BATCH = "every trainer has the model's local_batch_size, so a larger synchronous job trains on a larger batch in all"


class TrainingMode(StrEnum):
    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"


class SizeOutcome(StrEnum):
    FOUND = "found"
    IMPOSSIBLE = "impossible"
    """Proven for every size that was allowed."""
    UNDECIDED = "undecided"


class SizedJob(Document):
    """The cheapest job on one host."""

    host: str
    training: TrainingMode
    outcome: SizeOutcome
    throughput: float | None = None
    throughput_range: tuple[float, float] | None = None
    """Over the ranges of the software stack, where nothing was measured."""
    sure: bool | None = None
    """Whether it reaches the throughput also at the slow end of that range."""
    queueing_bounds: tuple[float, float] | None = None
    """What the throughput of asynchronous training lies between, whatever the mean."""
    binds: str | None = None
    """The stage that most of a step is, or the busiest station."""
    batch: int | None = None
    """Examples of a step, or of a round of a thread."""
    counts: dict[str, Sized] | None = None
    """`nodes` and `parameter_servers`, or `trainers`, `sparse_servers` and `dense_servers`; and `readers`, which `running` leaves out."""
    running: Running | None = None
    figures: Figures | None = None
    """Figures of the plan of a synchronous job."""
    smaller_impossible: tuple[NodesAndServers, ...] = ()
    """Cheaper synchronous jobs that are proven too slow, or not to fit."""
    smaller_undecided: tuple[NodesAndServers, ...] = ()


class Sizing(Document):
    """The answer of `emplace size`."""

    schema_version: Literal[1] = 1
    model: str
    target: Target
    wanted: Wanted
    hogwild: Hogwild
    jobs: tuple[SizedJob, ...]
    """Best first; those that were not found after them."""
    notes: tuple[str, ...]

    @property
    def best(self) -> SizedJob | None:
        return next((job for job in self.jobs if job.outcome is SizeOutcome.FOUND), None)


@dataclass(frozen=True)
class _Task:
    """One host, trained one way."""

    setting: Setting
    host: HostSpec
    target: Target
    wanted: Wanted
    hogwild: Hogwild
    most_nodes: int
    training: TrainingMode

    @property
    def prices(self) -> ServerPrices:
        return ServerPrices.of(self.host, self.wanted)

    def synchronous(self) -> SizeSearch:
        return SizeSearch(self.setting, self.host, self.target.throughput, self.prices, self.most_nodes)

    def fleet(self) -> Fleet:
        question = self.setting.priced(self.host)
        return Fleet(question.model, self.host, question.cost_model, self.hogwild)

    def may_reach(self, throughput: float) -> bool:
        """Whether some job of the allowed sizes is not ruled out; most often one of the first that is looked at."""
        if self.training is TrainingMode.ASYNCHRONOUS:
            return self.reaches() >= throughput
        search = self.synchronous()
        return any(search.reaches(nodes) >= throughput for nodes in range(self.most_nodes, 0, -1))

    def reaches(self) -> float:
        """Examples per second that no job of the allowed sizes exceeds."""
        if self.training is TrainingMode.ASYNCHRONOUS:
            return self.fleet().most(self.most_nodes)
        search = self.synchronous()
        return max(search.reaches(nodes) for nodes in range(1, self.most_nodes + 1))


@dataclass(frozen=True)
class SizeStudy:
    """A sizing whose target some job may reach."""

    model: str
    tasks: Sequence[_Task]

    part: ClassVar[type[SizedJob]] = SizedJob

    @staticmethod
    def of(setting: Setting, hosts: Sequence[HostSpec], target: Target, wanted: Wanted, hogwild: Hogwild, most_nodes: int) -> SizeStudy:
        """Raises InvalidDocument for a target that no job can reach and hosts without watts or prices."""
        refuse_equal_names(hosts)
        if wanted in NEEDS:
            refuse_unknown(list(hosts), NEEDS[wanted], f"the objective {wanted}")
        tasks = [
            _Task(setting, host, target, wanted, hogwild, most_nodes, training)
            for host in hosts
            for training in TrainingMode
            if training is TrainingMode.SYNCHRONOUS or (not host.has_cuda and host.remote_servers is not None)
        ]
        _refuse_out_of_reach(tasks)
        return SizeStudy(setting.model_on(hosts[0]).name, tasks)

    @property
    def size(self) -> int:
        return len(self.tasks)

    def do(self, number: int, before: Plan | None) -> tuple[SizedJob, None]:  # noqa: ARG002
        return _sized_job(self.tasks[number]), None

    def answer(self, parts: Sequence[SizedJob]) -> Sizing:
        asked = self.tasks[0]
        prices = {task.host.name: task.prices for task in self.tasks}
        return Sizing(
            model=self.model,
            target=asked.target,
            wanted=asked.wanted,
            hogwild=asked.hogwild,
            jobs=tuple(sorted(parts, key=lambda job: _rank(job, prices[job.host]))),
            notes=tuple(_notes(parts)),
        )


def run_size(
    setting: Setting,
    hosts: Sequence[HostSpec],
    target: Target,
    wanted: Wanted,
    hogwild: Hogwild,
    most_nodes: int,
    processes: int,
    tell: Tell,
) -> Sizing:
    """Raises InvalidDocument, before anything is solved, for a target that no job can reach and hosts without watts or prices."""
    study = SizeStudy.of(setting, hosts, target, wanted, hogwild, most_nodes)
    jobs = []
    for job in in_processes(study.tasks, _sized_job, processes):
        jobs.append(job)
        tell(len(jobs), study.size)
    return study.answer(jobs)


def _refuse_out_of_reach(tasks: Sequence[_Task]) -> None:
    target = tasks[0].target
    if any(task.may_reach(target.throughput) for task in tasks):
        return
    reached = {(task.host.name, task.training): task.reaches() for task in tasks}
    (host, training), most = max(reached.items(), key=lambda each: each[1])
    size = f"{training} job of up to {tasks[0].most_nodes} nodes of {host}"
    why = f"no job reaches {target.throughput:,.0f} examples/s: dense layers alone let a {size} have {most:,.0f}, and no other has more"
    if target.deadline_s is not None and target.examples is not None:
        more = f"write --deadline {target.examples / most / 3600:.3g}h or later, more --max-nodes, or other hosts"
        raise InvalidDocument("--deadline", [BrokenRule("", "", f"{why}; {more}")])
    raise InvalidDocument(
        "--throughput", [BrokenRule("", "", f"{why}; write --throughput {most:.0f} or less, more --max-nodes, or other hosts")]
    )


def _rank(job: SizedJob, prices: ServerPrices) -> tuple[int, float, float]:
    order = list(SizeOutcome).index(job.outcome)
    if job.running is None:
        return order, 0.0, 0.0
    besides = prices.dense_servers if job.running.dense_servers else 0.0
    return order, prices.of_job(job.running.nodes, job.running.parameter_servers) + besides, -(job.throughput or 0.0)


def _notes(jobs: Sequence[SizedJob]) -> list[str]:
    notes = [_BATCH, _READERS]
    if any(job.throughput_range is not None for job in jobs):
        notes.append(_DATASHEET)
    if any(job.training is TrainingMode.ASYNCHRONOUS for job in jobs):
        notes.append(_FLEET)
    return notes


def _sized_job(task: _Task) -> SizedJob:
    return _synchronous(task) if task.training is TrainingMode.SYNCHRONOUS else _asynchronous(task)


def _synchronous(task: _Task) -> SizedJob:
    search = task.synchronous()
    plan = search.run()
    known = SizedJob(
        host=task.host.name,
        training=task.training,
        outcome=SizeOutcome.UNDECIDED if search.undecided or not search.is_complete else SizeOutcome.IMPOSSIBLE,
        smaller_impossible=tuple(search.impossible),
        smaller_undecided=tuple(search.undecided),
    )
    return known if plan is None else _with_plan(task, search, plan, known)


def _with_plan(task: _Task, search: SizeSearch, plan: Plan, known: SizedJob) -> SizedJob:
    figures, topology = figures_of(plan), plan.topology()
    nodes, servers = topology.trainer_nodes, topology.remote_servers
    binds = "" if figures.binds is None else figures.binds.stage
    floor = next(count for count in range(1, nodes + 1) if search.reaches(count) >= task.target.throughput)
    counts = {"nodes": Sized(count=nodes, binds=binds, bounds=(LeastCount(by="dense layers alone", least=floor),))}
    if servers:
        counts["parameter_servers"] = Sized(count=servers, binds=search.why_servers(nodes))
    counts |= _readers(plan.question.model, plan.question.cost_model, figures.throughput or 0.0)
    price = task.prices.of_job(nodes, servers)

    def cheaper(sizes: Sequence[NodesAndServers]) -> tuple[NodesAndServers, ...]:
        return tuple(size for size in sizes if task.prices.of_job(size.nodes, size.parameter_servers) < price)

    span = figures.throughput_range
    return known.model_copy(
        update={
            "outcome": SizeOutcome.FOUND,
            "throughput": figures.throughput,
            "throughput_range": span,
            "sure": None if span is None else span[0] >= task.target.throughput,
            "binds": binds,
            "batch": plan.question.model.local_batch_size * plan.num_trainers,
            "counts": counts,
            "running": figures.running,
            "figures": figures,
            "smaller_impossible": cheaper(known.smaller_impossible),
            "smaller_undecided": cheaper(known.smaller_undecided),
        }
    )


def _asynchronous(task: _Task) -> SizedJob:
    fleet, options = task.fleet(), task.setting.options
    work_s = min(options.work_limit or PLACED_WORK_S, PLACED_WORK_S)
    placing = options.model_copy(update={"gap": max(options.gap, PLACED_GAP), "work_limit": work_s})
    search = FleetSearch(fleet, placing, task.target.throughput, task.prices, task.most_nodes)
    counts = search.run()
    known = SizedJob(host=task.host.name, training=task.training, outcome=SizeOutcome.UNDECIDED)
    return known if counts is None else _with_counts(task, search, counts, known)


def _with_counts(task: _Task, search: FleetSearch, counts: Counts, known: SizedJob) -> SizedJob:
    fleet, demands = search.fleet, search.demands(counts.sparse_servers)
    network, flow = fleet.flow(demands, counts)
    least, most = bounds(network)
    busy = {station.name: share for station, share in zip(network.stations, flow.utilisation, strict=True)}
    sparse = [share for station, share in zip(network.stations, flow.utilisation, strict=True) if station.name == SPARSE_CPU]
    throughput, span = fleet.throughput(flow.rounds_per_us), _fleet_range(search, counts)
    return known.model_copy(
        update={
            "outcome": SizeOutcome.FOUND,
            "throughput": throughput,
            "throughput_range": span,
            "sure": None if span is None else span[0] >= task.target.throughput,
            "queueing_bounds": (fleet.throughput(least), fleet.throughput(most)),
            "binds": limiting(network, flow).name,
            "batch": fleet.hogwild.batch,
            "counts": search.sized(counts) | _readers(fleet.model, fleet.cost_model, throughput),
            "running": running_job(
                task.host,
                throughput,
                counts.trainers,
                counts.sparse_servers + counts.dense_servers,
                [busy[TRAINER_CPU]] * counts.trainers,
                [*sparse, *[flow.utilisation[-1]] * counts.dense_servers],
            ),
        }
    )


def _readers(model: ModelSpec, cost_model: CostModel, throughput: float) -> dict[str, Sized]:
    """Servers that send so many examples per second; none where the host has no such machines."""
    per_byte_us = cost_model.all_to_all.per_server_byte_us
    if not per_byte_us:
        return {}
    count = max(1, math.ceil(throughput * example_bytes(model) * per_byte_us / 1e6))
    return {READERS: Sized(count=count, binds=READER_NETWORK, bounds=(LeastCount(by=READER_NETWORK, least=count),))}


def _fleet_range(search: FleetSearch, counts: Counts) -> tuple[float, float] | None:
    """(slow, fast) over the ranges of the stack; None where prices are measured."""
    fleet, placed = search.fleet, search.plans[counts.sparse_servers]
    if fleet.cost_model.source is not CostSource.DATASHEET:
        return None
    slow, fast = (fleet.throughput(fleet.flow(fleet.demands(placed, pace), counts)[1].rounds_per_us) for pace in (Pace.SLOW, Pace.FAST))
    return slow, fast
