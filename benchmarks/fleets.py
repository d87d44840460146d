"""Small random fleets, held against every choice of every count tried one by one.

    python -m benchmarks.fleets [QUESTIONS] > RESULTS.jsonl

One JSON line a question: most jobs with servers and their fewest servers, by `emplace size --fleet` and by trying all. A question is as
random as its number says, so single ones can be asked again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import emplace
from benchmarks.json_lines import emit
from benchmarks.sizing import LIMITS, drawn_host, drawn_model, throughput_of
from emplace.placement.datasheet import datasheet_cost_model
from emplace.studies.asynchronous import FleetSearch
from emplace.studies.fleet import Counts, Fleet, Hogwild
from emplace.studies.jobs import ServerPrices

QUESTIONS, MOST_JOBS, MOST_NODES, MOST_SERVERS = 50, 3, 3, 3
HOGWILD = Hogwild(threads=4, tau=4)
Size = tuple[int, int, int]
"""The host by number, nodes, and servers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="?", type=int, default=QUESTIONS)
    for number in range(parser.parse_args().questions):
        rng = np.random.default_rng([37, number])
        hosts = [drawn_host(rng).model_copy(update={"name": name}) for name in ("one", "two")]
        stock = [(int(rng.integers(1, MOST_NODES + 1)), int(rng.integers(0, MOST_SERVERS + 1))) for _ in hosts]
        models = [drawn_model(rng) for _ in range(int(rng.integers(1, MOST_JOBS + 1)))]
        reached = [dict(_every(model, hosts, stock)) for model in models]
        targets = [max(each.values()) * float(rng.uniform(0.2, 0.98)) or 1.0 for each in reached]
        by_trying = _best(reached, targets, stock)
        found = emplace.size_fleet(_fleet(models, targets, hosts, stock), hogwild=HOGWILD, **LIMITS)
        served = [each.job.running.servers for each in found.jobs if each.job is not None and each.job.running is not None]
        by_program = len(served), sum(served)
        emit({"question": number, "trying": by_trying, "found": by_program, "same": by_trying == by_program})


def _every(model: emplace.ModelSpec, hosts: list[emplace.HostSpec], stock: list[tuple[int, int]]) -> Iterator[tuple[Size, float]]:
    """Each size that the stock allows, with the most examples per second that it has, trained either way."""
    for number, (host, (nodes, servers)) in enumerate(zip(hosts, stock, strict=True)):
        apart = _asynchronous(model, host, nodes, servers)
        for size in product(range(1, nodes + 1), range(servers + 1)):
            yield (number, *size), max(throughput_of(model, host, *size), apart.get(size, 0.0))


def _asynchronous(model: emplace.ModelSpec, host: emplace.HostSpec, nodes: int, servers: int) -> dict[tuple[int, int], float]:
    fleet = Fleet(model, host, datasheet_cost_model(host), HOGWILD)
    search = FleetSearch(fleet, emplace.PlanOptions(**(LIMITS | {"gap": 0.02})), 1.0, ServerPrices(1.0, 1.0), max(nodes, servers))
    found: dict[tuple[int, int], float] = {}
    for trainers, sparse, dense in product(range(1, nodes + 1), range(1, servers + 1), range(1, servers + 1)):
        if sparse + dense <= servers and search.placed(sparse).has_placement:
            throughput = search.reaches(Counts(trainers=trainers, sparse_servers=sparse, dense_servers=dense))
            found[trainers, sparse + dense] = max(throughput, found.get((trainers, sparse + dense), 0.0))
    return found


def _best(reached: list[dict[Size, float]], targets: list[float], stock: list[tuple[int, int]]) -> tuple[int, int]:
    """(most jobs, their fewest servers) over every choice of one size or none for each job."""
    best = (0, 0)
    enough = [
        [None, *(size for size, throughput in each.items() if throughput >= target)] for each, target in zip(reached, targets, strict=True)
    ]
    for choice in product(*enough):
        taken = [size for size in choice if size is not None]
        if all(
            sum(nodes for at, nodes, _ in taken if at == host) <= there[0]
            and sum(servers for at, _, servers in taken if at == host) <= there[1]
            for host, there in enumerate(stock)
        ):
            best = min(best, (-len(taken), sum(nodes + servers for _, nodes, servers in taken)))
    return -best[0], best[1]


def _fleet(
    models: list[emplace.ModelSpec], targets: list[float], hosts: list[emplace.HostSpec], stock: list[tuple[int, int]]
) -> dict[str, Any]:
    jobs = [
        {"name": f"job{number}", "model": model, "throughput": target}
        for number, (model, target) in enumerate(zip(models, targets, strict=True))
    ]
    there = [{"host": host, "nodes": nodes, "parameter_servers": servers} for host, (nodes, servers) in zip(hosts, stock, strict=True)]
    return {"schema_version": 1, "jobs": jobs, "stock": there}


if __name__ == "__main__":
    main()
