"""How large a job must be, against every count tried one by one."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import emplace
from emplace.placement.catalog import builtin_host
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.stack import Pace
from emplace.studies.asynchronous import FleetSearch
from emplace.studies.fleet import Counts, Fleet, Hogwild, estimate
from emplace.studies.jobs import NodesAndServers, ServerPrices
from emplace.studies.size import Sizing
from emplace.studies.sized_job import SizedJob, SizeOutcome, TrainingMode
from tests.app.cli.command import Emplace
from tests.app.cli.conftest import emplace_here

__all__ = ["emplace_here"]

LIMITS: dict[str, Any] = {"gap": 0.001, "work_limit": 0.1}
PLACED: dict[int, Plan] = {}
"""Tables on sparse servers, solved once for all tests."""


def small_host(servers: int = 1) -> dict[str, Any]:
    """Nodes of two weak CPUs with little memory, and a few servers."""
    host = builtin_host("cpu-dual-socket").to_data() | {"name": "small"}
    host["node"] |= {"ddr_capacity": "2GiB", "ddr_reserve": "1GiB"}
    host["remote_servers"] |= {"count": servers, "ddr_capacity": "4GiB", "ddr_reserve": "1GiB"}
    return host


def small_model(tables: int = 3, rows: int = 400_000) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": "small",
        "local_batch_size": 200,
        "dense_features": 64,
        "bottom_mlp": [64],
        "top_mlp": [64],
        "interaction": "cat",
        "tables": [
            {"name": f"t{i}", "num_embeddings": rows, "embedding_dim": 64, "features": [{"name": f"f{i}", "length": {"fixed": 10 + i}}]}
            for i in range(tables)
        ],
    }


def throughput_of(model: dict[str, Any], host: dict[str, Any], nodes: int, servers: int) -> float:
    """What the best plan of a job of this size reaches; 0 where there is none."""
    data = host | {"remote_servers": host["remote_servers"] | {"count": max(servers, 1)}}
    tiers = ["ddr", "remote"] if servers else ["ddr"]
    plan = emplace.plan(model, data, nodes=nodes, tiers=tiers, **LIMITS)
    return plan.throughput_samples_per_s or 0.0


def job(sizing: Sizing, training: TrainingMode) -> SizedJob:
    return next(each for each in sizing.jobs if each.training is training)


@pytest.mark.parametrize(("tables", "rows", "target"), [(2, 1_500_000, 150_000)])
def test_the_cheapest_synchronous_job_is_that_of_trying_every_count(tables: int, rows: int, target: int) -> None:
    model, host = small_model(tables, rows), small_host()
    every = {(nodes, servers): throughput_of(model, host, nodes, servers) for nodes, servers in product(range(1, 4), range(2))}
    enough = [size for size, throughput in every.items() if throughput >= target]
    found = job(emplace.size(model, [host], throughput=str(target), max_nodes=3, **LIMITS), TrainingMode.SYNCHRONOUS)
    assert found.running is not None
    assert found.smaller_undecided == ()
    assert found.running.servers == min(map(sum, enough))
    assert {(size.nodes, size.parameter_servers) for size in found.smaller_impossible} >= {
        size for size in every if sum(size) < found.running.servers and every[size] == 0
    }
    for size in found.smaller_impossible:
        assert every[size.nodes, size.parameter_servers] < target


def fleet_search(target: float, prices: ServerPrices, most: int = 4) -> FleetSearch:
    host = emplace.read_host(small_host())
    fleet = Fleet(emplace.read_model(small_model(5, 1_500_000)), host, datasheet_cost_model(host), Hogwild(threads=4, tau=1))
    return FleetSearch(fleet, PlanOptions(**LIMITS), target, prices, most, PLACED)


@pytest.mark.parametrize("prices", [ServerPrices(1.0, 1.0), ServerPrices(1.0, 3.0), ServerPrices(5.0, 1.0)])
@pytest.mark.parametrize("target", [50_000.0, 400_000.0, 700_000.0, 9e6])
def test_the_cheapest_fleet_is_that_of_trying_every_count(target: float, prices: ServerPrices) -> None:
    search = fleet_search(target, prices)
    found = search.run()
    enough = {}
    for trainers, sparse, dense in product(range(1, 5), repeat=3):
        counts = Counts(trainers=trainers, sparse_servers=sparse, dense_servers=dense)
        if search.placed(sparse).has_placement and search.reaches(counts) >= target:
            enough[counts] = prices.of_job(trainers, sparse + dense)
    if not enough:
        assert found is None
        return
    assert found is not None
    assert search.reaches(found) >= target * (1 - 1e-6)
    assert prices.of_job(found.trainers, found.sparse_servers + found.dense_servers) == pytest.approx(min(enough.values()))


def test_a_cpu_fleet_scales_with_trainers_until_a_station_is_full() -> None:
    search = fleet_search(1.0, ServerPrices(1.0, 1.0), 128)
    placed = search.placed(2)

    def of(trainers: int) -> tuple[float, str]:
        throughput, (least, most), limits = estimate(search.fleet, placed, Counts(trainers=trainers, sparse_servers=2, dense_servers=2))
        assert least <= throughput <= most * (1 + 1e-9)
        return throughput, limits

    one, two, many, more = of(1), of(2), of(32), of(128)
    assert one[1].startswith("trainer")
    assert two[0] == pytest.approx(2 * one[0], rel=0.15)
    assert not many[1].startswith("trainer")
    assert more[0] == pytest.approx(many[0], rel=0.05)


def test_a_fleet_is_slower_at_the_slow_end_of_its_ranges() -> None:
    search = fleet_search(1.0, ServerPrices(1.0, 1.0))
    counts = Counts(trainers=2, sparse_servers=2, dense_servers=1)
    slow, typical, fast = (estimate(search.fleet, search.placed(2), counts, pace)[0] for pace in (Pace.SLOW, Pace.TYPICAL, Pace.FAST))
    assert slow < typical < fast


def test_every_count_has_what_asks_for_it() -> None:
    sizing = emplace.size(small_model(), [small_host()], throughput="260k", max_nodes=4, **LIMITS)
    fleet, together = job(sizing, TrainingMode.ASYNCHRONOUS), job(sizing, TrainingMode.SYNCHRONOUS)
    assert fleet.counts is not None
    assert set(fleet.counts) == {"trainers", "sparse_servers", "dense_servers", "readers"}
    for sized in fleet.counts.values():
        assert sized.count >= max(bound.least for bound in sized.bounds)
    assert (fleet.throughput or 0.0) >= 260_000
    assert (together.throughput or 0.0) >= 260_000
    assert NodesAndServers(nodes=1) in together.smaller_impossible
    assert sizing.jobs[0].running is not None
    assert sizing.jobs[1].running is not None
    assert sizing.jobs[0].running.servers <= sizing.jobs[1].running.servers


def test_a_deadline_is_a_throughput(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(small_model(1)))
    (tmp_path / "host.json").write_text(json.dumps(small_host()))
    asked = ("size", "model.json", "--host", "host.json", "--format", "json", "--processes", "1")
    by_time = json.loads(emplace_here(*asked, "--examples", "3.6M", "--deadline", "36s").stdout)
    by_rate = json.loads(emplace_here(*asked, "--throughput", "100k").stdout)
    assert by_time["target"] == {"throughput": 1e5, "examples": 3.6e6, "deadline_s": 36.0}
    assert by_time["jobs"] == by_rate["jobs"]
    assert by_time["jobs"][0]["outcome"] == SizeOutcome.FOUND


def test_what_no_size_fits_is_a_proven_no(emplace_here: Emplace) -> None:
    arguments = ("size", "m3", "--throughput", "1k", "--host", "big-basin-16g", "--max-nodes", "1", "--tiers", "hbm")
    done = emplace_here(*arguments)
    assert done.returncode == 1
    assert "no job found" in done.stdout


@pytest.mark.parametrize("target", [["--throughput", "1T"], ["--examples", "10T", "--deadline", "1s"]])
def test_what_dense_layers_alone_rule_out_is_a_proven_no_that_says_so(emplace_here: Emplace, target: list[str]) -> None:
    asked = ("size", "ncf", "--host", "cpu-dual-socket", "--max-nodes", "2", "--processes", "1", *target)
    text, document = emplace_here(*asked), emplace_here(*asked, "--format", "json")
    assert (text.returncode, document.returncode) == (1, 1)
    jobs = json.loads(document.stdout)["jobs"]
    assert {(job["training"], job["outcome"]) for job in jobs} == {("synchronous", "impossible"), ("asynchronous", "impossible")}
    for job in jobs:
        said = f"dense layers alone let a job of up to 2 nodes of cpu-dual-socket, trained {job['training']}ly, have "
        assert job["why_impossible"].startswith(said)
        assert job["why_impossible"] in text.stdout
    assert "allow more nodes with --max-nodes" in text.stdout


REFUSED: dict[str, tuple[list[str], str]] = {
    "no target": ([], "--examples 10G and --deadline 8h"),
    "two targets": (["--throughput", "5k", "--examples", "5k", "--deadline", "8h"], "--examples 10G and --deadline 8h"),
    "no number": (["--throughput", "fast"], "such as 500k"),
    "no time": (["--examples", "5k", "--deadline", "8"], "such as 90m or 8h"),
    "no price": (["--throughput", "5k", "--objective", "cost"], "price_per_hour: 12.5"),
    "no watts": (["--throughput", "5k", "--objective", "power", "--host", "zion"], "power_w: 3650"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_solved(emplace_here: Emplace, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def solved(*_: Any) -> None:
        raise AssertionError("solved")

    monkeypatch.setattr("emplace.studies.size.in_processes", solved)
    arguments, said = REFUSED[case]
    done = emplace_here("size", "ncf", "--host", "cpu-dual-socket", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
