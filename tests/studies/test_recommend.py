"""Hosts and places for tables, ranked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import emplace
from emplace.placement.catalog import builtin_host, builtin_stack
from emplace.studies.placements import Place
from emplace.studies.recommend import Order, RankedHost, Recommendation
from tests.app.cli.command import Emplace
from tests.app.cli.conftest import emplace_here

__all__ = ["emplace_here"]

LIMITS: dict[str, Any] = {"work_limit": 0.2}


@pytest.fixture(scope="module")
def found() -> Recommendation:
    return emplace.recommend("suite", ["cpu-dual-socket", "big-basin-32g", "big-basin-16g"], settings=["sparse=4", "mlp=64^2"], **LIMITS)


def of(found: Recommendation, host: str, place: Place) -> RankedHost:
    return next(each for each in found.ranking if (each.host, each.place) == (host, place))


def test_every_place_that_a_host_has_is_planned(found: Recommendation) -> None:
    places = {(each.host, each.place) for each in found.ranking}
    assert {place for host, place in places if host == "cpu-dual-socket"} == {Place.SYSTEM_MEMORY, Place.REMOTE_SERVERS}
    assert {place for host, place in places if host == "big-basin-32g"} == set(Place)


def test_the_best_comes_first(found: Recommendation) -> None:
    values = [each.value for each in found.ranking if each.value is not None]
    assert values == sorted(values, reverse=True)
    assert found.best is not None
    assert found.best.host == found.hosts[0]
    assert len(set(found.hosts)) == len(found.hosts) == 3


def test_a_candidate_is_the_plan_of_its_tiers(found: Recommendation) -> None:
    model = emplace.read_model("suite")
    alone = emplace.recommend("suite", "big-basin-32g", settings=["sparse=4", "mlp=64^2"], tiers=["ddr"], **LIMITS)
    assert [each.place for each in alone.ranking] == [Place.SYSTEM_MEMORY]
    assert alone.ranking[0].value == of(found, "big-basin-32g", Place.SYSTEM_MEMORY).value
    assert model.local_batch_size == 1600


def test_an_order_is_robust_only_where_intervals_are_apart(found: Recommendation) -> None:
    best = {each.host: each for each in found.ranking if each.is_best_of_host}
    for each in found.comparisons:
        better, worse = best[each.better].value_range, best[each.worse].value_range
        assert better is not None
        assert worse is not None
        assert (each.order is Order.ROBUST) == (better[0] > worse[1]) == (each.measure is None)
    orders = {(each.better, each.worse): each.order for each in found.comparisons}
    assert orders["big-basin-16g", "big-basin-32g"] is Order.TOO_CLOSE
    assert orders["big-basin-32g", "cpu-dual-socket"] is Order.ROBUST
    assert found.as_good == ["big-basin-32g"]


def test_what_to_measure_is_what_the_range_is_widest_by(found: Recommendation, tmp_path: Path) -> None:
    """Once that figure is known, the interval is narrower than with any other figure known."""
    candidate = of(found, "big-basin-32g", Place.DEVICE_MEMORY)

    def width(figure: str) -> float:
        stack = builtin_stack("torchrec-eager")
        known = getattr(stack, figure)
        sure = known.model_copy(update={"low": known.typical, "high": known.typical})
        path = tmp_path / f"{figure}.json"
        path.write_text(stack.model_copy(update={figure: sure}).canonical_json())
        asked = emplace.recommend("suite", "big-basin-32g", settings=["sparse=4", "mlp=64^2"], tiers=["hbm"], stack=path, **LIMITS)
        worse, better = asked.ranking[0].value_range or (1.0, 1.0)
        return better / worse

    first, second = (doubt.figure for doubt in candidate.doubts[:2])
    assert width(first) < width(second)


def test_watts_and_money_change_the_order() -> None:
    cheap = builtin_host("cpu-dual-socket").to_data()
    cheap["node"]["price_per_hour"] = cheap["remote_servers"]["price_per_hour"] = 0.01
    dear = builtin_host("big-basin-32g").to_data()
    dear["node"]["price_per_hour"] = dear["remote_servers"]["price_per_hour"] = 10_000.0
    hosts, asked = [cheap, dear], {"settings": ["sparse=4", "mlp=64^2"], **LIMITS}
    assert emplace.recommend("suite", hosts, **asked).hosts == ("big-basin-32g", "cpu-dual-socket")
    by_cost = emplace.recommend("suite", hosts, objective="cost", **asked)
    assert by_cost.hosts == ("cpu-dual-socket", "big-basin-32g")
    assert by_cost.comparisons[0].order is Order.ROBUST
    best = by_cost.ranking[0]
    assert best.value_range is not None
    assert best.value_range[0] > (best.value or 0.0) > best.value_range[1]


def test_servers_that_cost_nothing_are_ranked() -> None:
    free = builtin_host("cpu-dual-socket").to_data()
    free["node"]["price_per_hour"] = free["remote_servers"]["price_per_hour"] = 0.0
    found = emplace.recommend("suite", [free, free | {"name": "other"}], objective="cost", settings=["sparse=4", "mlp=64^2"], **LIMITS)
    assert {each.value for each in found.ranking} == {0.0}
    assert found.comparisons[0].order is Order.TOO_CLOSE


def test_the_command_says_the_same(emplace_here: Emplace, found: Recommendation) -> None:
    asked = ("recommend", "suite", "--set", "sparse=4", "--set", "mlp=64^2", "--work-limit", "0.2", "--host", "cpu-dual-socket")
    document = json.loads(emplace_here(*asked, "--format", "json", "--processes", "1").stdout)
    assert document["ranking"][0]["value"] == of(found, "cpu-dual-socket", Place.SYSTEM_MEMORY).value
    text = emplace_here(*asked, "--processes", "1")
    assert text.returncode == 0
    assert "cpu-dual-socket with tables in system memory" in text.stdout


def test_a_model_that_fits_nowhere_is_a_proven_no(emplace_here: Emplace) -> None:
    done = emplace_here("recommend", "m3", "--host", "big-basin-16g", "--tiers", "hbm")
    assert done.returncode == 1
    assert "no host has a placement" in done.stdout


@pytest.mark.parametrize(("objective", "said"), [("throughput-per-watt", "power_w: 3650"), ("cost", "price_per_hour: 12.5")])
def test_a_host_without_watts_or_price_is_refused(emplace_here: Emplace, objective: str, said: str) -> None:
    done = emplace_here("recommend", "ncf", "--hosts", "zion,big-basin-16g", "--objective", objective)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "zion" in done.stderr
