"""Jobs and a stock of hosts, against every choice tried one by one."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emplace
from emplace.studies.fleet_assignment import WhyLeft
from emplace.studies.fleet_program import HostStock, JobOption, assign
from tests.app.cli.command import Emplace
from tests.app.cli.conftest import emplace_here
from tests.studies.test_size import LIMITS, small_host, small_model, throughput_of

__all__ = ["emplace_here"]


def best_by_trying(options: list[JobOption], stock: list[HostStock], jobs: int) -> tuple[int, float]:
    """(most jobs, least price) over every choice of one option or none for each job."""
    of_job = [[None, *(option for option in options if option.job == job)] for job in range(jobs)]
    best = (0, 0.0)
    for choice in product(*of_job):
        taken = [option for option in choice if option is not None]
        fits = all(
            sum(option.nodes for option in taken if option.host == host) <= there.nodes
            and sum(option.servers for option in taken if option.host == host) <= there.servers
            for host, there in enumerate(stock)
        )
        if fits:
            best = min(best, (-len(taken), sum(option.price for option in taken)))
    return -best[0], best[1]


@pytest.mark.parametrize("number", range(25))
def test_the_best_choice_is_that_of_trying_every_one(number: int) -> None:
    rng = np.random.default_rng([36, number])
    jobs, hosts = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    stock = [HostStock(int(rng.integers(1, 6)), int(rng.integers(0, 5))) for _ in range(hosts)]
    options = [
        JobOption(job, int(rng.integers(hosts)), int(rng.integers(1, 5)), int(rng.integers(0, 4)), float(rng.integers(1, 20)) / 4)
        for job in range(jobs)
        for _ in range(int(rng.integers(0, 5)))
    ]
    chosen = assign(options, stock)
    taken = [options[each] for each in chosen.options]
    assert chosen.is_best
    assert len({option.job for option in taken}) == len(taken)
    assert (len(taken), sum(option.price for option in taken)) == best_by_trying(options, stock, jobs)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e9])
def test_the_cheaper_choice_is_taken_whatever_prices_are_counted_in(scale: float) -> None:
    options = [JobOption(0, host, 1, 0, price * scale) for host, price in enumerate((0.4, 0.1, 0.2))]
    assert assign(options, [HostStock(1, 0)] * 3).options == (1,)
    free = [JobOption(0, 0, 1, 0, 0.0)]
    assert assign(free, [HostStock(1, 0)]).options == (0,)


def a_fleet(*targets: float) -> dict[str, Any]:
    """Jobs of one model for nodes without servers, and for a node with one."""
    alone, beside = small_host() | {"name": "alone"}, small_host()
    alone.pop("remote_servers")
    jobs = [{"name": f"job{number}", "model": small_model(3, 1_500_000), "throughput": target} for number, target in enumerate(targets)]
    stock = [{"host": alone, "nodes": 3}, {"host": beside, "nodes": 1, "parameter_servers": 1}]
    return {"schema_version": 1, "jobs": jobs, "stock": stock}


def test_jobs_get_what_trying_every_count_gives_them() -> None:
    targets = (150_000.0, 150_000.0, 300_000.0)
    model, host = small_model(3, 1_500_000), small_host()
    reached = {(0, nodes, 0): throughput_of(model, host, nodes, 0) for nodes in range(1, 4)}
    reached |= {(1, 1, servers): throughput_of(model, host, 1, servers) for servers in range(2)}
    options = [
        JobOption(job, at, nodes, servers, float(nodes + servers))
        for job, target in enumerate(targets)
        for (at, nodes, servers), throughput in reached.items()
        if throughput >= target
    ]
    most, least = best_by_trying(options, [HostStock(3, 0), HostStock(1, 1)], len(targets))
    found = emplace.size_fleet(a_fleet(*targets), **LIMITS)
    served = [each.job for each in found.jobs if each.job is not None and each.job.running is not None]
    assert 0 < most < len(targets)
    assert (len(served), sum(job.running.servers for job in served if job.running)) == (most, least)
    assert len(found.left_over) == len(targets) - most
    for each in found.jobs:
        assert each.job is None or (each.job.throughput or 0.0) >= each.target.throughput
    assert sum(each.nodes_left + each.parameter_servers_left for each in found.stock) == 3 + 1 + 1 - least


FLEET = """\
schema_version: 1
jobs:
- {name: ads, model: ncf, throughput: 100k}
- {model: ncf, examples: 3.6G, deadline: 1h}
stock:
- {host: cpu-dual-socket, nodes: 3}
"""


def test_what_is_left_over_is_said(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    asked = ("size", "--fleet", "fleet.yaml", "--processes", "1", "--work-limit", "0.2")
    done = emplace_here(*asked, "--out", "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert [job["job"]["host"] for job in found["jobs"]] == ["cpu-dual-socket"] * 2
    [stock] = found["stock"]
    assert f"2 of 2 jobs get {3 - stock['nodes_left']} of 3 servers" in done.stdout
    assert done.returncode == 0
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("nodes: 3", "nodes: 1").replace("3.6G", "360M"))
    done = emplace_here(*asked)
    assert done.returncode == 1
    assert "others take what it needs of the stock: 1 node of cpu-dual-socket at least" in done.stdout


@pytest.mark.parametrize("tier", ["hbm", "remote"])
def test_stock_without_the_tiers_that_are_asked_for_is_too_small(tier: str) -> None:
    host = small_host() | {"name": "alone"}
    host.pop("remote_servers")
    fleet = {
        "schema_version": 1,
        "jobs": [{"name": "job", "model": small_model(), "throughput": 1000.0}],
        "stock": [{"host": host, "nodes": 1}],
    }
    [job] = emplace.size_fleet(fleet, tiers=[tier], **LIMITS).jobs
    assert (job.job, job.why_left, job.undecided) == (None, WhyLeft.TOO_SMALL, ())


REFUSED: dict[str, tuple[str, str, str]] = {
    "an unknown model": ("model: ncf, throughput", "model: m9, throughput", "fleet.yaml:3: /jobs/0/model"),
    "an unknown host": ("cpu-dual-socket", "abacus", "fleet.yaml:6: /stock/0/host"),
    "no number": ("100k", "fast", "fleet.yaml:3: /jobs/0/throughput: must be a number above 0"),
    "no target": (", throughput: 100k", "", "fleet.yaml:3: /jobs/0/throughput: say what the job must reach"),
    "a throughput that no job reaches": ("100k", "100G", "fleet.yaml:3: /jobs/0/throughput: no job reaches 100,000,000,000 examples/s"),
    "a deadline that no job meets": ("1h", "1s", "write deadline: "),
    "one name for two": ("name: ads, ", "", "fleet.yaml:4: /jobs/1/name: is another job's name too"),
    "no stock": ("stock:\n- {host: cpu-dual-socket, nodes: 3}", "stock: []", "fleet.yaml:5: /stock: "),
    "no jobs": (FLEET[FLEET.index("jobs:") : FLEET.index("stock:")], "jobs: []\n", "fleet.yaml:2: /jobs: "),
    "a host twice": (", nodes: 3}", ", nodes: 3}\n- {host: cpu-dual-socket, nodes: 3}", "fleet.yaml:7: /stock/1/host: is in stock twice"),
    "servers that nobody describes": ("cpu-dual-socket, nodes: 3", "dgx-h100, nodes: 3, parameter_servers: 2", "has no remote_servers"),
    "half a node": ("nodes: 3", "nodes: 2.5", "fleet.yaml:6: /stock/0/nodes: must be a whole number"),
    "a key that isn't there": ("model: ncf, throughput", "model: ncf, priority: 1, throughput", "/jobs/0/priority"),
    "settings of no template": (
        "model: ncf, throughput",
        "model: ncf, set: [sparse=4], throughput",
        "/jobs/0/set: only the template suite",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_solved(
    emplace_here: Emplace, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solved(*_: Any) -> None:
        raise AssertionError("solved")

    monkeypatch.setattr("emplace.studies.fleet_assignment.in_processes", solved)
    before, after, said = REFUSED[case]
    (tmp_path / "fleet.yaml").write_text(FLEET.replace(before, after, 1))
    done = emplace_here("size", "--fleet", "fleet.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_fleet_says_itself_what_it_asks(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    said = emplace_here("size", "ncf", "--fleet", "fleet.yaml", "--throughput", "5k").stderr
    assert "--fleet: (document): says itself what MODEL and --throughput would" in said
    assert "with --fleet a file that names several" in emplace_here("size", "--throughput", "5k").stderr
    assert "price_per_hour: 12.5" in emplace_here("size", "--fleet", "fleet.yaml", "--objective", "cost").stderr
