"""Closed networks whose customers and stations are processes on the cores of one machine.

A station's process works wherever at least one customer is at it, and so does a customer's own process while it thinks. With more
processes at work than cores, the scheduler shares the cores out and each goes slower by as much: the machine's chain runs through the
same states as that of a machine with a core for each, and stays in each longer. So its stationary distribution is that of the product
form (Reiser and Lavenberg, J. ACM 27(2), 1980) with each state weighted by its slowness, and throughput is divided by the slowness
in the mean.

Linux looks for an idle core when a process wakes only as far as few cores are busy (SIS_UTIL; with two cores not at all above three
fifths), else the process queues on the core that it had or on that of whoever woke it, idle ones or not. An idle core takes over what
waits elsewhere at a tick of the clock there. So processes that work for longer than a tick are spread, and those that work for less are
often two on one core while another idles.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from emplace.studies.queueing import Network, mean_values

TICK_US = 4000.0
"""The clock's period of a Linux kernel with 250 ticks a second, as most have; at work found so here."""


@dataclass(frozen=True)
class SharedFlow:
    """How customers go round on shared cores."""

    rounds_per_us: float
    slowness: float
    """How much longer everything lasts than with a core for each process, in the mean; 1 where no process waits for a core."""


def at_work(network: Network) -> NDArray[np.float64]:
    """[n]: the chance that n processes are at work, with a core for each.

    States are how many customers think and how many are at each copy of a station; the convolution of Buzen (CACM 16(9), 1973) over
    both the customers and the processes at work.
    """
    customers = network.customers
    scale = 1 / (network.total_us + network.think_us)
    weights = np.zeros((customers + 1, customers + 1))
    weights[0, 0] = 1.0
    for thinking in range(1, customers + 1):
        weights[thinking, thinking] = weights[thinking - 1, thinking - 1] * network.think_us * scale / thinking
    for demand_us in chain.from_iterable([station.of_each_us] * station.copies for station in network.stations):
        before, share = weights.copy(), demand_us * scale
        for queued in range(1, customers + 1):
            weights[queued:, 1:] += share**queued * before[:-queued, :-1]
    found: NDArray[np.float64] = weights[customers] / weights[customers].sum()
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
    at_once = at_work(network)[1:]  # one at least: every customer is somewhere
    processes = np.arange(1.0, len(at_once) + 1) + alone * background_us
    slowness = float(at_once @ (processes / busy_cores(processes, cores, stretch_us)))
    return SharedFlow(alone / slowness, slowness)
