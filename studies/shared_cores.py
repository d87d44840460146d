"""Closed networks whose customers and stations are processes on the cores of one machine.

A station's process works wherever at least one customer is at it, and so does a customer's own process while it thinks. With more
processes at work than cores, the scheduler shares the cores out and each goes slower by as much: the machine's chain runs through the
same states as that of a machine with a core for each, and stays in each longer. So its stationary distribution is that of the product
form (Reiser and Lavenberg, J. ACM 27(2), 1980) with each state weighted by its slowness, and throughput is divided by the slowness
in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from emplace.studies.queueing import Network, mean_values


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


def shared_flow(network: Network, cores: int, background_us: float = 0.0) -> SharedFlow:
    """Customers think and are served on so many cores; each round also gives `background_us` of work that nobody waits for."""
    alone = mean_values(network).rounds_per_us
    processes = np.arange(network.customers + 1) + alone * background_us
    slowness = float(at_work(network) @ np.maximum(1.0, processes / cores))
    return SharedFlow(alone / slowness, slowness)
