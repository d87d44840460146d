"""Closed queueing networks: customers that go round between stations. Exact mean value analysis, and bounds beside it.

Stations serve one customer at a time (or all at once at a shared rate, which has the same means), and service times are
exponential or shared, so that the network has a product form: Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain
Queuing Networks", J. ACM 27(2), 1980. Bounds: Zahorjan et al., "Balanced Job Bound Analysis of Queueing Networks", CACM 25(2), 1982.
"""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.sums import add_up


@dataclass(frozen=True)
class Station:
    """`copies` equal servers, each with a queue of its own; a customer visits one of them, any as often."""

    name: str
    demand_us: float
    """Service time of one customer's round, at all copies together."""
    copies: int = 1
    processes: float = 1.0
    """At work in the mean while it serves, where that matters: more than one where several serve each customer at once."""

    @property
    def of_each_us(self) -> float:
        return self.demand_us / self.copies


@dataclass(frozen=True)
class Network:
    """Customers that think, then visit all stations, and begin again."""

    stations: tuple[Station, ...]
    think_us: float
    customers: int

    @property
    def total_us(self) -> float:
        """Service time of a round."""
        return add_up(station.demand_us for station in self.stations)

    @property
    def longest(self) -> Station:
        """The station that limits however many customers there are."""
        return max(self.stations, key=lambda station: station.of_each_us)


@dataclass(frozen=True)
class Flow:
    """How customers go round in the mean. Rates are per microsecond."""

    rounds_per_us: float
    utilisation: tuple[float, ...]
    """The share of the time in which a copy of each station works."""
    waiting: tuple[float, ...]
    """Customers at a copy of each station, those in service included."""


def mean_values(network: Network) -> Flow:
    """Exact, one customer more at a time: a customer finds a station as it is in the mean without it."""
    queues = [0.0] * len(network.stations)
    rounds_per_us = 0.0
    for customers in range(1, network.customers + 1):
        at_each_us = [station.of_each_us * (1 + queue) for station, queue in zip(network.stations, queues, strict=True)]
        round_us = network.think_us + add_up(
            station.copies * time_us for station, time_us in zip(network.stations, at_each_us, strict=True)
        )
        rounds_per_us = customers / round_us
        queues = [rounds_per_us * time_us for time_us in at_each_us]
    busy = tuple(rounds_per_us * station.of_each_us for station in network.stations)
    return Flow(rounds_per_us, busy, tuple(queues))


def bounds(network: Network) -> tuple[float, float]:
    """Rounds per microsecond at least and at most: those of networks that are less and more balanced than this one."""
    customers, total_us, think_us = network.customers, network.total_us, network.think_us
    longest_us = network.longest.of_each_us
    mean_us = total_us / sum(station.copies for station in network.stations)
    least = customers / (total_us + think_us + (customers - 1) * longest_us / (1 + think_us / (customers * total_us)))
    most = customers / (total_us + think_us + (customers - 1) * mean_us / (1 + think_us / total_us))
    return least, min(1 / longest_us, most)


def limiting(network: Network, flow: Flow) -> Station:
    """The busiest station."""
    return max(zip(network.stations, flow.utilisation, strict=True), key=lambda each: each[1])[0]
