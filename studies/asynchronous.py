"""The cheapest fleet of asynchronous trainers, sparse and dense parameter servers that reaches a throughput."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from emplace.placement.plan import Plan, PlanOptions, PlanStatus
from emplace.placement.sums import add_up
from emplace.planning import answer
from emplace.studies.fleet import (
    DENSE_NETWORK,
    SPARSE_CPU,
    SPARSE_NETWORK,
    TRAINER_CPU,
    TRAINER_NETWORK,
    Counts,
    Demands,
    Fleet,
)
from emplace.studies.jobs import LeastCount, ServerPrices, Sized

CAPACITY = "capacity"
WAITING = "waiting"
"""Binds where more are needed than any station asks for alone: customers wait in queues."""
_SURE = 1 - 1e-9


@dataclass
class FleetSearch:
    """Counts of servers that are to reach so many examples per second."""

    fleet: Fleet
    options: PlanOptions
    throughput: float
    prices: ServerPrices
    most_servers: int
    """The most servers of each kind."""
    plans: dict[int, Plan] = field(default_factory=dict)
    """Where tables are, by the number of sparse servers."""

    def run(self) -> Counts | None:
        """The cheapest counts, for the queueing model and tables as the solver places them; None where there are none."""
        best: tuple[float, Counts] | None = None
        for sparse in range(1, self.most_servers + 1):
            if best is not None and self._least_price(sparse) >= best[0]:
                break
            if not self.placed(sparse).has_placement:
                continue
            for counts in self._with_sparse(sparse):
                price = self._price(counts)
                if best is None or price < best[0]:
                    best = price, counts
        return None if best is None else best[1]

    def smallest(self, trainers: int, servers: int) -> list[Counts]:
        """Counts within so many of each of which none takes more trainers and more servers than another, for tables as the solver places them."""
        found: list[Counts] = []
        for sparse in range(1, servers):
            enough = [each for each in found if each.trainers == self._least_trainers]
            if enough and sparse + 1 >= _holding(enough[0]):
                break
            if self.placed(sparse).has_placement:
                found += (each for each in self._with_sparse(sparse) if each.trainers <= trainers and _holding(each) <= servers)
                found = _none_larger(found)
        return found

    def reaches(self, counts: Counts) -> float:
        """Examples per second of a fleet, by mean value analysis."""
        return self.fleet.throughput(self.fleet.flow(self.demands(counts.sparse_servers), counts)[1].rounds_per_us)

    def demands(self, sparse: int) -> Demands:
        return self._demands.setdefault(sparse, self.fleet.demands(self.placed(sparse)))

    def sized(self, counts: Counts) -> dict[str, Sized]:
        """Each count with what asks for it."""
        demands, sparse = self.demands(counts.sparse_servers), counts.sparse_servers
        lookups, network = add_up(demands.sparse_cpu_us), add_up(demands.sparse_network_us)
        trainers = [
            (TRAINER_CPU, self._count(demands.trainer_cpu_us / demands.sockets)),
            (TRAINER_NETWORK, self._count(demands.trainer_network_us)),
        ]
        servers = [(CAPACITY, self._least_capacity), (SPARSE_CPU, self._count(lookups)), (SPARSE_NETWORK, self._count(network))]
        imbalance = (
            (SPARSE_CPU, self._count(max(demands.sparse_cpu_us) * sparse)),
            (SPARSE_NETWORK, self._count(max(demands.sparse_network_us) * sparse)),
        )
        return {
            "trainers": _sized(counts.trainers, trainers),
            "sparse_servers": _sized(sparse, servers, [*servers, *imbalance]),
            "dense_servers": _sized(counts.dense_servers, [(DENSE_NETWORK, self._count(demands.dense_network_us))]),
        }

    @cached_property
    def _demands(self) -> dict[int, Demands]:
        return {}

    @cached_property
    def _least_capacity(self) -> int:
        """The fewest sparse servers whose memory holds the tables."""
        fit = (sparse for sparse in range(1, self.most_servers + 1) if self.placed(sparse).status is not PlanStatus.INFEASIBLE)
        return next(fit, self.most_servers + 1)

    @property
    def _rounds_per_us(self) -> float:
        return self.throughput / (1e6 * self.fleet.model.local_batch_size)

    def _count(self, demand_us: float) -> int:
        """The fewest of a kind that keep up with rounds that ask so much of all of them."""
        return max(1, math.ceil(self._rounds_per_us * demand_us * _SURE))

    def placed(self, sparse: int) -> Plan:
        """Where tables are on so many sparse servers."""
        if sparse not in self.plans:
            self.plans[sparse] = answer(self.fleet.placement_question(sparse, self.options))
        return self.plans[sparse]

    def _least_price(self, sparse: int) -> float:
        """The least that any fleet with so many sparse servers or more costs: the fewest trainers, and one dense server besides."""
        return self.prices.of_job(self._least_trainers, sparse + 1)

    @cached_property
    def _least_trainers(self) -> int:
        """As many as processors ask for, whatever the servers."""
        return self._count(self.fleet.trainer_cpu_us(self.fleet.cost_model) / self.fleet.host.devices_per_node)

    def _with_sparse(self, sparse: int) -> Iterator[Counts]:
        """The fewest trainers that do, with the fewest dense servers for them; then more dense servers as long as they save trainers."""
        demands = self.demands(sparse)
        if max(*demands.sparse_cpu_us, *demands.sparse_network_us) * self._rounds_per_us > 1:
            return

        def enough(trainers: int, dense: int) -> bool:
            counts = Counts(trainers=trainers, sparse_servers=sparse, dense_servers=dense)
            return self.reaches(counts) >= self.throughput * _SURE

        dense = self._fewest(lambda count: enough(self.most_servers, count))
        while dense is not None:
            trainers = self._fewest(partial(lambda dense, count: enough(count, dense), dense))
            assert trainers is not None
            yield Counts(trainers=trainers, sparse_servers=sparse, dense_servers=dense)
            dense = self._fewest(partial(lambda trainers, count: enough(trainers - 1, count), trainers)) if trainers > 1 else None

    def _fewest(self, enough: Callable[[int], bool]) -> int | None:
        """The fewest of a kind that are enough, by halving: more servers of any kind never make a fleet slower."""
        low, high = 0, self.most_servers
        if not enough(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _price(self, counts: Counts) -> float:
        return self.prices.of_job(counts.trainers, _holding(counts))


def _holding(counts: Counts) -> int:
    """The servers of both kinds."""
    return counts.sparse_servers + counts.dense_servers


def _none_larger(every: list[Counts]) -> list[Counts]:
    """Those that take fewer trainers or fewer servers than each other, fewest trainers first; of equal ones the first."""
    kept: list[Counts] = []
    for each in sorted(every, key=lambda counts: (counts.trainers, _holding(counts))):
        if not kept or _holding(each) < _holding(kept[-1]):
            kept.append(each)
    return kept


def _sized(count: int, alone: list[tuple[str, int]], placed: list[tuple[str, int]] | None = None) -> Sized:
    """`alone` is what perfect balance asks for, `placed` also what the tables' placement does."""
    most = max((least, name) for name, least in placed or alone)
    return Sized(
        count=count, binds=most[1] if most[0] >= count else WAITING, bounds=tuple(LeastCount(by=name, least=least) for name, least in alone)
    )
