"""Sizes of small random jobs, held against every count tried one by one.

    python -m benchmarks.sizing [QUESTIONS] > RESULTS.jsonl

One JSON line a question: the fewest servers by `emplace size` and by trying all, of a synchronous job and of an asynchronous fleet,
and whether they agree. A question is as random as its number says, so single ones can be asked again.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np

import emplace
from benchmarks.json_lines import emit
from emplace.placement.catalog import builtin_host
from emplace.studies.asynchronous import FleetSearch
from emplace.studies.fleet import Counts, Fleet, Hogwild
from emplace.studies.grid import Setting
from emplace.studies.jobs import ServerPrices
from emplace.studies.synchronous import SizeSearch

QUESTIONS, MOST_NODES, MOST_SERVERS, MOST_OF_EACH = 100, 3, 2, 4
LIMITS: dict[str, Any] = {"gap": 0.001, "work_limit": 0.2}
EACH_ONCE = ServerPrices(1.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="?", type=int, default=QUESTIONS)
    for number in range(parser.parse_args().questions):
        rng = np.random.default_rng([36, number])
        model, host = drawn_model(rng), drawn_host(rng)
        together, apart = _synchronous(model, host, rng), _asynchronous(model, host, rng)
        emit({"question": number, "synchronous": together, "asynchronous": apart, "same": together["same"] and apart["same"]})


def drawn_model(rng: np.random.Generator) -> emplace.ModelSpec:
    width = int(rng.choice([32, 128, 512]))
    tables = [
        {
            "name": f"t{index}",
            "num_embeddings": int(10 ** rng.uniform(4, 6.2)),
            "embedding_dim": int(rng.choice([32, 64, 128])),
            "features": [{"name": f"f{index}", "length": {"fixed": int(rng.integers(1, 40))}}],
        }
        for index in range(int(rng.integers(1, 5)))
    ]
    return emplace.read_model(
        {
            "schema_version": 1,
            "name": "drawn",
            "local_batch_size": int(rng.choice([100, 200, 800])),
            "dense_features": 64,
            "bottom_mlp": [width],
            "top_mlp": [width],
            "interaction": "cat",
            "tables": tables,
        }
    )


def drawn_host(rng: np.random.Generator) -> emplace.HostSpec:
    data = builtin_host("cpu-dual-socket").to_data() | {"name": "drawn"}
    data["node"] |= {"ddr_capacity": f"{rng.choice([1.5, 2, 4])}GiB", "ddr_reserve": "1GiB"}
    data["remote_servers"] |= {"count": MOST_SERVERS, "ddr_capacity": f"{rng.choice([2, 4])}GiB", "ddr_reserve": "1GiB"}
    return emplace.read_host(data)


def _synchronous(model: emplace.ModelSpec, host: emplace.HostSpec, rng: np.random.Generator) -> dict[str, Any]:
    """The target is a share of what the largest of all jobs reaches."""
    every = {size: throughput_of(model, host, *size) for size in product(range(1, MOST_NODES + 1), range(MOST_SERVERS + 1))}
    target = max(every.values()) * float(rng.uniform(0.2, 0.98)) or 1.0
    fewest = min((sum(size) for size, throughput in every.items() if throughput >= target), default=None)
    search = SizeSearch(Setting(model, emplace.PlanOptions(**LIMITS)), host, target, EACH_ONCE, MOST_NODES)
    plan = search.run()
    found = None if plan is None else plan.topology().trainer_nodes + len(plan.topology().servers)
    wrong = [size for size in search.impossible if every[size.nodes, size.parameter_servers] >= target]
    return {"target": target, "fewest": fewest, "found": found, "same": found == fewest and not wrong}


def throughput_of(model: emplace.ModelSpec, host: emplace.HostSpec, nodes: int, servers: int) -> float:
    if host.remote_servers is None:
        raise ValueError("hosts here are drawn with remote servers")
    remote = host.remote_servers.model_copy(update={"count": max(servers, 1)})
    tiers = ["ddr", "remote"] if servers else ["ddr"]
    plan = emplace.plan(model, host.model_copy(update={"remote_servers": remote}), nodes=nodes, tiers=tiers, **LIMITS)
    return plan.throughput_samples_per_s or 0.0


def _asynchronous(model: emplace.ModelSpec, host: emplace.HostSpec, rng: np.random.Generator) -> dict[str, Any]:
    from emplace.placement.datasheet import datasheet_cost_model

    fleet = Fleet(model, host, datasheet_cost_model(host), Hogwild(threads=int(rng.integers(1, 9)), tau=int(rng.integers(1, 9))))
    plans: dict[int, emplace.Plan] = {}
    options = emplace.PlanOptions(**LIMITS)
    search = FleetSearch(fleet, options, 1.0, EACH_ONCE, MOST_OF_EACH, plans)
    search.run()
    every = {
        counts: search.reaches(counts)
        for trainers, sparse, dense in product(range(1, MOST_OF_EACH + 1), repeat=3)
        if search.placed(sparse).has_placement
        for counts in [Counts(trainers=trainers, sparse_servers=sparse, dense_servers=dense)]
    }
    target = max(every.values(), default=1.0) * float(rng.uniform(0.2, 0.98))
    fewest = min((counts.servers for counts, throughput in every.items() if throughput >= target), default=None)
    counts = FleetSearch(fleet, options, target, EACH_ONCE, MOST_OF_EACH, plans).run()
    found = None if counts is None else counts.servers
    return {"target": target, "fewest": fewest, "found": found, "same": found == fewest}


if __name__ == "__main__":
    main()
