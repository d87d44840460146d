"""What a small fleet on this machine should do, from what a round asks of each of its processes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from emplace.executor.asynchronous.job import Role
from emplace.executor.asynchronous.measured import FleetMeasurement
from emplace.executor.asynchronous.settings import Averaging, FleetSettings
from emplace.placement.document import Document
from emplace.studies.queueing import Network, Station
from emplace.studies.shared_cores import shared_flow

_MESSAGES = 2
"""In a round to each sparse server: ids, and gradients."""


class Bottleneck(StrEnum):
    """What a small fleet may be limited by."""

    CORES = "cores"
    """The machine's, which all processes share."""
    TRAINERS = "trainers"
    """Their threads, which hardly wait for each other: more of them would be faster."""
    SPARSE_SERVER = "sparse_server"
    DENSE_SERVER = "dense_server"


class FleetLoads(Document):
    """A fleet's throughput, and the busy share of what could limit it."""

    throughput_examples_per_s: float
    utilisation: dict[Bottleneck, float]
    """For cores, of all of them; for a server, of one core, and of several the busiest counts; for trainers, the share of a thread's
    round in which it works or a server works for it, and it does not wait."""
    limiting: Bottleneck
    """The busiest; of equals the first, so where each thread has a core it is the cores."""


@dataclass(frozen=True)
class RoundCosts:
    """Processor time of one round at each process that it visits, and of what goes on beside it."""

    thread_us: float
    sparse_us: tuple[float, ...]
    dense_us: tuple[float, ...]
    shadow_us: float

    @classmethod
    def of(cls, alone: Sequence[FleetMeasurement]) -> RoundCosts:
        """The mean of fleets of one thread, where nobody waits for anybody."""

        def mean_us(role: Role) -> tuple[float, ...]:
            return tuple(sum(times_us) / len(alone) for times_us in zip(*(each.cpu_us(role) for each in alone), strict=True))

        return cls(
            thread_us=sum(mean_us(Role.THREAD)),
            sparse_us=mean_us(Role.SPARSE_SERVER),
            dense_us=mean_us(Role.DENSE_SERVER),
            shadow_us=sum(mean_us(Role.SHADOW)),
        )

    @property
    def total_us(self) -> float:
        """Processor time of a round at all processes."""
        return self.thread_us + sum(self.sparse_us) + sum(self.dense_us) + self.shadow_us

    def stretch_us(self, settings: FleetSettings) -> float:
        """How long a process works on end, in the mean over its work: servers for a message, threads until they wait for an answer."""
        averages = 0.0 if settings.averaging is Averaging.SHADOWSYNC else 1 / settings.tau
        visits = [(self.thread_us, _MESSAGES + averages), *((work_us, _MESSAGES) for work_us in self.sparse_us)]
        visits += [(work_us, averages) for work_us in self.dense_us if averages]
        return sum(work_us**2 / count for work_us, count in visits) / sum(work_us for work_us, _ in visits)

    def network(self, settings: FleetSettings) -> tuple[Network, float]:
        """What a thread goes round, and microseconds of a round's work in the background."""
        sparse = [Station(Bottleneck.SPARSE_SERVER, demand_us) for demand_us in self.sparse_us]
        dense = [Station(Bottleneck.DENSE_SERVER, demand_us) for demand_us in self.dense_us]
        if settings.averaging is Averaging.SHADOWSYNC:
            return Network(tuple(sparse), self.thread_us, settings.customers), self.shadow_us + sum(self.dense_us)
        return Network((*sparse, *dense), self.thread_us, settings.customers), 0.0


def predicted_loads(settings: FleetSettings, costs: RoundCosts, cores: int) -> FleetLoads:
    """What the fleet of these settings does on so many cores."""
    network, background_us = costs.network(settings)
    rounds_per_us = shared_flow(network, cores, costs.stretch_us(settings), background_us).rounds_per_us
    return _loads(
        rounds_per_us * 1e6 * settings.batch,
        {
            Bottleneck.CORES: rounds_per_us * costs.total_us / cores,
            Bottleneck.TRAINERS: rounds_per_us * (network.think_us + network.total_us) / settings.customers,
            Bottleneck.SPARSE_SERVER: rounds_per_us * max(costs.sparse_us),
            Bottleneck.DENSE_SERVER: rounds_per_us * max(costs.dense_us),
        },
    )


def measured_loads(settings: FleetSettings, measured: FleetMeasurement, cores: int) -> FleetLoads:
    """What the fleet did."""
    in_rounds = [Role.THREAD, Role.SPARSE_SERVER, *([Role.DENSE_SERVER] if settings.averaging is Averaging.EASGD else [])]
    return _loads(
        measured.throughput_examples_per_s,
        {
            Bottleneck.CORES: sum(station.utilisation for station in measured.stations) / cores,
            Bottleneck.TRAINERS: sum(sum(measured.utilisation(role)) for role in in_rounds) / settings.customers,
            Bottleneck.SPARSE_SERVER: max(measured.utilisation(Role.SPARSE_SERVER)),
            Bottleneck.DENSE_SERVER: max(measured.utilisation(Role.DENSE_SERVER)),
        },
    )


def _loads(throughput: float, utilisation: dict[Bottleneck, float]) -> FleetLoads:
    busiest = max(utilisation, key=lambda limit: round(utilisation[limit], 9))
    return FleetLoads(throughput_examples_per_s=throughput, utilisation=utilisation, limiting=busiest)
