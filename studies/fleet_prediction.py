"""What a small fleet on this machine should do, from what a round asks of each of its processes alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from emplace.executor.asynchronous.job import Role
from emplace.executor.asynchronous.measured import FleetMeasurement
from emplace.executor.asynchronous.settings import Averaging, FleetSettings
from emplace.placement.document import Document
from emplace.placement.sums import add_up
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
    def of(cls, alone: FleetMeasurement) -> RoundCosts:
        """Those of a fleet of one thread, where nobody waits for anybody."""
        return cls(
            thread_us=add_up(alone.cpu_us(Role.THREAD)),
            sparse_us=alone.cpu_us(Role.SPARSE_SERVER),
            dense_us=alone.cpu_us(Role.DENSE_SERVER),
            shadow_us=add_up(alone.cpu_us(Role.SHADOW)),
        )

    @property
    def total_us(self) -> float:
        """Processor time of a round at all processes."""
        return self.thread_us + add_up(self.sparse_us) + add_up(self.dense_us) + self.shadow_us

    def stretch_us(self, settings: FleetSettings) -> float:
        """How long a process works on end, in the mean over its work: servers for a message, threads until they wait for an answer."""
        averages = 0.0 if settings.averaging is Averaging.SHADOWSYNC else 1 / settings.tau
        visits = [(self.thread_us, _MESSAGES + averages), *((work_us, _MESSAGES) for work_us in self.sparse_us)]
        visits += [(work_us, averages) for work_us in self.dense_us if averages]
        return add_up(work_us**2 / count for work_us, count in visits) / add_up(work_us for work_us, _ in visits)

    def network(self, settings: FleetSettings) -> tuple[Network, float]:
        """What a thread goes round, and microseconds of a round's work in the background."""
        sparse, dense = _asked_at_once(Bottleneck.SPARSE_SERVER, self.sparse_us), _asked_at_once(Bottleneck.DENSE_SERVER, self.dense_us)
        if settings.averaging is Averaging.SHADOWSYNC:
            return Network((sparse,), self.thread_us, settings.customers), self.shadow_us + add_up(self.dense_us)
        return Network((sparse, dense), self.thread_us, settings.customers), 0.0


def _asked_at_once(name: Bottleneck, servers_us: tuple[float, ...]) -> Station:
    """All servers of a role: a thread asks them at once, and waits for the last."""
    longest_us = max(servers_us)
    return Station(name, longest_us, processes=add_up(servers_us) / longest_us if longest_us else 1.0)


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
    servers = [Role.SPARSE_SERVER, *([Role.DENSE_SERVER] if settings.averaging is Averaging.EASGD else [])]
    waited_for = add_up(max(measured.utilisation(role)) for role in servers)
    return _loads(
        measured.throughput_examples_per_s,
        {
            Bottleneck.CORES: add_up(station.utilisation for station in measured.stations) / cores,
            Bottleneck.TRAINERS: (add_up(measured.utilisation(Role.THREAD)) + waited_for) / settings.customers,
            Bottleneck.SPARSE_SERVER: max(measured.utilisation(Role.SPARSE_SERVER)),
            Bottleneck.DENSE_SERVER: max(measured.utilisation(Role.DENSE_SERVER)),
        },
    )


def _loads(throughput: float, utilisation: dict[Bottleneck, float]) -> FleetLoads:
    busiest = max(utilisation, key=lambda limit: round(utilisation[limit], 9))
    return FleetLoads(throughput_examples_per_s=throughput, utilisation=utilisation, limiting=busiest)
