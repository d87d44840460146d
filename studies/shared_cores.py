"""Closed networks whose customers and stations are processes on the cores of one machine.

A station's process (or its processes, where several serve each customer at once) works wherever at least one customer is at it, and so
does a customer's own process while it thinks. With more processes at work than cores, the scheduler shares the cores out and each goes slower by as much: the machine's chain runs through the
same states as that of a machine with a core for each, and stays in each longer. So its stationary distribution is that of the product
form (Reiser and Lavenberg, J. ACM 27(2), 1980) with each state weighted by its slowness, and throughput is divided by the slowness
in the mean.

Linux looks for an idle core when a process wakes only as far as few cores are busy (SIS_UTIL; with two cores not at all above three
fifths), else the process queues on the core that it had or on that of whoever woke it, idle ones or not. An idle core takes over what
waits elsewhere at a tick of the clock there. So processes that work for longer than a tick are spread, and those that work for less are
often two on one core while another idles.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.studies.queueing import Network, Station, mean_values

TICK_US = 4000.0
"""The clock's period of a Linux kernel with 250 ticks a second, as most have; at work found so here."""
_Weights = dict[tuple[int, float], float]
"""Those of states, by customers so far and processes at work."""


@dataclass(frozen=True)
class SharedFlow:
    """How customers go round on shared cores."""

    rounds_per_us: float
    slowness: float
    """How much longer everything lasts than with a core for each process, in the mean; 1 where no process waits for a core."""


def at_work(network: Network) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """([k], [k]): how many processes may be at work, and the chance of it, with a core for each.

    States are how many customers think and how many are at each copy of a station; the convolution of Buzen (CACM 16(9), 1973) over
    both the customers and the processes at work.
    """
    scale = 1 / (network.total_us + network.think_us)
    weights = {(0, 0.0): 1.0}
    for thinking in range(1, network.customers + 1):
        before = weights[thinking - 1, thinking - 1.0]
        weights[thinking, float(thinking)] = before * network.think_us * scale / thinking
    for station in network.stations:
        for _ in range(station.copies):
            weights = _with_station(weights, station, station.of_each_us * scale, network.customers)
    found = {processes: weight for (customers, processes), weight in weights.items() if customers == network.customers}
    chances = np.array(list(found.values()))
    return np.array(list(found)), chances / chances.sum()


def _with_station(weights: _Weights, station: Station, share: float, customers: int) -> _Weights:
    """With a copy of one station more: any customers that are not elsewhere may be at it."""
    found: _Weights = defaultdict(float)
    for (elsewhere, processes), weight in weights.items():
        for queued in range(customers - elsewhere + 1):
            found[elsewhere + queued, processes + (station.processes if queued else 0.0)] += weight * share**queued
    return found


def busy_cores(processes: NDArray[np.float64], cores: int, stretch_us: float) -> NDArray[np.float64]:
    """[n]: how many of the cores are busy in the mean while so many processes, one at least, are at work, each for `stretch_us` on end.

    Half a tick passes until an idle core takes over, unless what it waits for ends first. Until then processes are as they woke: each on any
    core alike, so that a core has none with the chance (1 - 1/cores)^processes.
    """
    as_they_woke = TICK_US / 2 / (TICK_US / 2 + stretch_us)
    spread, scattered = np.minimum(processes, cores), cores * (1 - (1 - 1 / cores) ** processes)
    found: NDArray[np.float64] = spread + as_they_woke * (scattered - spread)
    return found


def shared_flow(network: Network, cores: int, stretch_us: float, background_us: float = 0.0) -> SharedFlow:
    """Customers think and are served on so many cores; each round also gives `background_us` of work that nobody waits for."""
    alone = mean_values(network).rounds_per_us
    in_network, chances = at_work(network)
    processes = in_network + alone * background_us
    slowness = float(chances @ (processes / busy_cores(processes, cores, stretch_us)))
    return SharedFlow(alone / slowness, slowness)
