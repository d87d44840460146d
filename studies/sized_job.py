"""One host's job that is large enough: how it is looked for, and every count with what it follows from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.document import Document
from emplace.placement.host import HostSpec
from emplace.placement.ingest import example_bytes
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.stack import Pace
from emplace.studies.asynchronous import FleetSearch
from emplace.studies.figures import Figures, figures_of
from emplace.studies.fleet import SPARSE_CPU, TRAINER_CPU, Counts, Fleet, Hogwild
from emplace.studies.grid import Setting
from emplace.studies.jobs import LeastCount, NodesAndServers, ServerPrices, Sized, Wanted
from emplace.studies.power import Running, running_job
from emplace.studies.queueing import bounds, limiting
from emplace.studies.synchronous import SizeSearch
from emplace.studies.target import Target

PLACED_GAP, PLACED_WORK_S = 0.02, 1.0
"""Gap and limit of the placements on sparse servers, of which a search needs many."""
READERS, READER_NETWORK = "readers", "reader_network"


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
    why_impossible: str | None = None
    """Where dense layers alone prove it for every size that was allowed."""
    counts: dict[str, Sized] | None = None
    """`nodes` and `parameter_servers`, or `trainers`, `sparse_servers` and `dense_servers`; and `readers`, which `running` leaves out."""
    running: Running | None = None
    figures: Figures | None = None
    """Figures of the plan of a synchronous job."""
    smaller_impossible: tuple[NodesAndServers, ...] = ()
    """Cheaper synchronous jobs that are proven too slow, or not to fit."""
    smaller_undecided: tuple[NodesAndServers, ...] = ()


@dataclass(frozen=True)
class SizeTask:
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

    def asynchronous(self) -> FleetSearch:
        options = self.setting.options
        work_s = min(options.work_limit or PLACED_WORK_S, PLACED_WORK_S)
        placing = options.model_copy(update={"gap": max(options.gap, PLACED_GAP), "work_limit": work_s})
        return FleetSearch(self.fleet(), placing, self.target.throughput, self.prices, self.most_nodes)

    def fleet(self) -> Fleet:
        question = self.setting.priced(self.host)
        return Fleet(question.model, self.host, question.cost_model, self.hogwild)

    def may_reach(self) -> bool:
        """Whether dense layers alone don't rule out all jobs of the allowed sizes; most often the first that is looked at is not."""
        if self.training is TrainingMode.ASYNCHRONOUS:
            return self.reaches() >= self.target.throughput
        search = self.synchronous()
        return any(search.reaches(nodes) >= self.target.throughput for nodes in range(self.most_nodes, 0, -1))

    def reaches(self) -> float:
        """Examples per second that no job of the allowed sizes exceeds."""
        if self.training is TrainingMode.ASYNCHRONOUS:
            return self.fleet().most(self.most_nodes)
        search = self.synchronous()
        return max(search.reaches(nodes) for nodes in range(1, self.most_nodes + 1))

    def most_reached(self) -> str:
        """What dense layers alone allow, in words."""
        size = f"up to {self.most_nodes} node{'' if self.most_nodes == 1 else 's'} of {self.host.name}"
        return f"dense layers alone let a job of {size}, trained {self.training}ly, have {self.reaches():,.0f} examples/s"


def tasks_on(host: HostSpec, setting: Setting, target: Target, wanted: Wanted, hogwild: Hogwild, most_nodes: int) -> list[SizeTask]:
    """The ways of training that the host has."""
    trains_apart = not host.has_cuda and host.remote_servers is not None
    ways = TrainingMode if trains_apart else (TrainingMode.SYNCHRONOUS,)
    return [SizeTask(setting, host, target, wanted, hogwild, most_nodes, training) for training in ways]


def out_of_reach(tasks: Sequence[SizeTask]) -> tuple[float, str] | None:
    """(the most examples per second that any job has, why no more) where that is too few; None where some job may reach the target."""
    if any(task.may_reach() for task in tasks):
        return None
    most, task = max(((task.reaches(), task) for task in tasks), key=lambda each: each[0])
    return most, f"no job reaches {task.target.throughput:,.0f} examples/s: {task.most_reached()}, and no other has more"


def sized_job(task: SizeTask) -> SizedJob:
    """The cheapest job, and what is known of cheaper ones; nothing is solved where none can be fast enough."""
    if not task.may_reach():
        impossible = SizeOutcome.IMPOSSIBLE
        return SizedJob(host=task.host.name, training=task.training, outcome=impossible, why_impossible=task.most_reached())
    return _synchronous(task) if task.training is TrainingMode.SYNCHRONOUS else _asynchronous(task)


def _synchronous(task: SizeTask) -> SizedJob:
    search = task.synchronous()
    plan = search.run()
    known = SizedJob(
        host=task.host.name,
        training=task.training,
        outcome=SizeOutcome.UNDECIDED if search.undecided or not search.is_complete else SizeOutcome.IMPOSSIBLE,
        smaller_impossible=tuple(search.impossible),
        smaller_undecided=tuple(search.undecided),
    )
    return known if plan is None else job_of_plan(task, search, plan, known)


def job_of_plan(task: SizeTask, search: SizeSearch, plan: Plan, known: SizedJob) -> SizedJob:
    """A synchronous job as its plan has it; `known` is what is known of others."""
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


def _asynchronous(task: SizeTask) -> SizedJob:
    search = task.asynchronous()
    counts = search.run()
    known = SizedJob(host=task.host.name, training=task.training, outcome=SizeOutcome.UNDECIDED)
    return known if counts is None else job_of_counts(task, search, counts, known)


def job_of_counts(task: SizeTask, search: FleetSearch, counts: Counts, known: SizedJob) -> SizedJob:
    """An asynchronous job of so many servers."""
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
