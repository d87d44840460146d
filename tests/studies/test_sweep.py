"""Sweeps through `emplace.sweep` and `emplace sweep`."""

from __future__ import annotations

import csv
import json
from io import StringIO
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

import emplace
from emplace.app.cli.output import as_text
from emplace.app.reports.sweep_csv import sweep_csv
from emplace.app.reports.sweep_svg import PlottedLevel, Series, series_svg, sweep_svg
from emplace.app.reports.sweep_text import short, sweep_view
from emplace.placement.catalog import builtin_host
from emplace.studies.figures import Figures
from emplace.studies.sweep import Sweep
from tests.app.cli.command import Emplace
from tests.app.cli.conftest import emplace_here

__all__ = ["emplace_here"]

SMALL = ("sparse=4", "mlp=64^2")


def throughputs(sweep: Sweep) -> list[float]:
    return [point.figures.throughput or 0.0 for point in sweep.points]


@pytest.fixture(scope="module")
def by_sparse() -> Sweep:
    """The paper's sweep over sparse features, on a CPU server and on GPUs."""
    return emplace.sweep("suite", ["cpu-dual-socket", "big-basin-32g"], ["/sparse=4,16,64"], settings=["mlp=512^3"])


def test_every_point_is_planned_and_says_what_it_is_made_of(by_sparse: Sweep) -> None:
    assert [(point.host, point.values, point.local_batch_size) for point in by_sparse.points] == [
        (host, {"/sparse": sparse}, batch) for host, batch in (("cpu-dual-socket", 200), ("big-basin-32g", 1600)) for sparse in (4, 16, 64)
    ]
    for point in by_sparse.points:
        figures = point.figures
        assert figures.gap is not None
        assert figures.gap <= 0.02
        assert figures.stages_us is not None
        assert sum(figures.stages_us.values()) == pytest.approx(figures.step_time_us)
        slow, fast = figures.throughput_range or (0.0, 0.0)
        assert slow < (figures.throughput or 0.0) < fast
        assert figures.binds is not None


def test_a_point_is_the_plan_of_its_question(by_sparse: Sweep) -> None:
    model = emplace.read_model("suite").model_copy(update={"local_batch_size": 200})
    alone = emplace.plan(model.model_copy(update={"tables": model.tables[:16]}), "cpu-dual-socket", gap=0.01)
    assert by_sparse.points[1].figures.throughput == pytest.approx(alone.throughput_samples_per_s, rel=0.01)


def test_more_sparse_features_are_slower(by_sparse: Sweep) -> None:
    of_cpu, of_gpu = throughputs(by_sparse)[:3], throughputs(by_sparse)[3:]
    assert of_cpu == sorted(of_cpu, reverse=True)
    assert of_gpu == sorted(of_gpu, reverse=True)


def test_elasticities_add_up_to_what_follows_from_rates(by_sparse: Sweep) -> None:
    """All rates twice as high would at most double throughput; what is fixed does not follow them."""
    for point in by_sparse.points:
        total = sum(each.percent for each in point.figures.elasticities)
        assert total <= 1.001
        if point.figures.binds and point.figures.binds.stage == "launches":
            assert total == 0
        else:
            assert total > 0.3


def test_an_elasticity_foretells_a_small_change() -> None:
    sweep = emplace.sweep("suite", "cpu-dual-socket", ["/node/devices/*/memory_bandwidth=x1,x1.05"], settings=["sparse=32"])
    before, after = throughputs(sweep)
    gains = {each.path: each.percent for each in sweep.points[0].figures.elasticities}
    assert after / before - 1 == pytest.approx(0.05 * gains["/node/devices/0/memory_bandwidth"], rel=0.1)


@pytest.mark.parametrize(
    ("host", "rates"),
    [
        ("cpu-dual-socket", ["/node/devices/*/memory_bandwidth", "/node/intra_node_link", "/node/network"]),
        ("zion", ["/node/devices/*/fp32_flops", "/node/devices/*/system_link"]),
    ],
)
def test_a_faster_part_never_slows_a_job(host: str, rates: list[str]) -> None:
    moved = False
    for rate in rates:
        found = throughputs(
            emplace.sweep("suite", host, [f"{rate}=x0.5,x1,x4"], settings=["sparse=3", "batch=6400"], ranks=2, work_limit=0.2)
        )
        assert found[0] <= found[1] * 1.01
        assert found[1] <= found[2] * 1.01
        moved = moved or found[2] > 1.1 * found[0]
    assert moved


@pytest.mark.parametrize(("host", "batches"), [("cpu-dual-socket", "25,50,6400,12800"), ("big-basin-32g", "50,100,25600,51200")])
def test_throughput_saturates_with_the_batch(host: str, batches: str) -> None:
    found = throughputs(emplace.sweep("suite", host, [f"/batch={batches}"], settings=["sparse=4"]))
    assert found == sorted(found)
    assert found[1] / found[0] > 1.6
    assert found[3] / found[2] < 1.1


def test_a_front_is_what_nothing_beats(by_sparse: Sweep) -> None:
    front = next(each for each in by_sparse.fronts if each.over == ("throughput", "power"))

    def of(figures: Figures) -> tuple[float, float]:
        assert figures.running is not None
        return figures.throughput or 0.0, -(figures.running.power_w or 0.0)

    points = [of(point.figures) for point in by_sparse.points]
    for number, (throughput, power) in enumerate(points):
        beaten = any(one >= throughput and other >= power and (one, other) != (throughput, power) for one, other in points)
        assert (number in front.points) != beaten


def test_where_one_host_overtakes_the_other() -> None:
    """With few examples eight GPUs wait for launches; of many they make short work."""
    sweep = emplace.sweep("suite", ["cpu-dual-socket", "big-basin-32g"], ["/batch=64,256,1600"], settings=["sparse=4"])
    [found] = [each for each in sweep.crossovers if each.quantity == "throughput-per-watt"]
    assert (found.below, found.above) == ("cpu-dual-socket", "big-basin-32g")
    assert found.at is not None
    assert found.between[0] < found.at < found.between[1]


def test_options_and_hosts_are_varied_too() -> None:
    sweep = emplace.sweep("ncf", "big-basin-16g", ["--nodes=1,2", "/node/devices/*/hbm_capacity=16GiB,32GiB"], work_limit=0.2)
    assert [point.figures.trainers for point in sweep.points] == [8, 8, 16, 16]


def test_what_does_not_fit_is_a_point_too(emplace_here: Emplace) -> None:
    arguments = ("sweep", "m3", "--vary", '--tiers=["hbm"]', "--host", "big-basin-16g", "--format", "json")
    done = emplace_here(*arguments)
    assert done.returncode == 1
    [point] = json.loads(done.stdout)["points"]
    assert point["figures"]["status"] == "infeasible"
    assert point["figures"]["reason"]


def test_a_sweep_is_the_same_with_every_number_of_processes(emplace_here: Emplace) -> None:
    asked = ("sweep", "suite", "--set", "mlp=64^2", "--vary", "/sparse=2", "--hosts", "zion,cpu-dual-socket", "--format", "json")
    one, two = (emplace_here(*asked, "--processes", number) for number in ("1", "2"))
    assert (one.returncode, one.stdout) == (0, two.stdout)
    assert json.loads(one.stdout)["axes"] == [{"path": "/sparse", "part": "template", "values": [2]}]


def test_every_format_holds_every_point(by_sparse: Sweep) -> None:
    table = list(csv.DictReader(StringIO(sweep_csv(by_sparse))))
    assert [float(row["step_time_us"]) for row in table] == [point.figures.step_time_us for point in by_sparse.points]
    figure = ElementTree.fromstring(sweep_svg(by_sparse))
    assert len([part for part in figure.iter() if part.tag.endswith("circle")]) == len(by_sparse.points)
    text = as_text(sweep_view(by_sparse))
    assert text.count("big-basin-32g  ") >= 3
    assert "Pareto front of throughput and servers" in text


@pytest.mark.parametrize(("count", "labelled"), [(6, 6), (40, 8)])
def test_labels_of_many_values_leave_room_for_each_other(count: int, labelled: int) -> None:
    values = [16_384 + number for number in range(count)]
    figure = ElementTree.fromstring(series_svg([Series("a", [PlottedLevel(2.0, None)] * count)], values, ""))
    places = [float(part.get("x", 0)) for part in figure.iter() if part.tag.endswith("text") and (part.text or "").startswith("16.")]
    assert len(places) == labelled
    assert min(right - left for left, right in pairwise(places)) > 50


REFUSED: dict[str, tuple[list[str], str]] = {
    "no such pointer": (["--vary", "/tiers/0=1"], "is not there"),
    "a host without it": (["--vary", "/node/devices/*/hbm_capacity=x2"], "/node/devices/0 has count"),
    "an item with a zero before it": (["--vary", "/node/devices/00/memory_bandwidth=x2"], "has items 0 to 0"),
    "what says nothing of a step": (["--vary", "/fingerprint=a,b"], "is not there; what can be varied begins with /batch"),
    "no pointer": (["--vary", "/~2=1"], "is no JSON pointer"),
    "a factor of nothing": (["--vary", "--nodes=x2"], "is not there in options"),
    "a value of another kind": (["--vary", "/sparse=4,many"], "must be a whole number"),
    "a multiple of nothing": (
        ["--vary", "/sparse=x2,x0"],
        "/sparse=x2,x0: multiples must be from x0.000001 to x1000000, such as x0.5 or x2",
    ),
    "a multiple that is no number": (["--vary", "/sparse=xnan"], "multiples must be from"),
    "a multiple of a whole number beyond all numbers": (["--vary", "/sparse=x1e999999"], "multiples must be from"),
    "a multiple of a size beyond all numbers": (["--vary", "/node/ddr_capacity=x1e400"], "multiples must be from"),
    "a multiple of a rate beyond all numbers": (["--vary", "/node/network=x1e-400"], "multiples must be from"),
    "an option besides": (
        ["--vary", "--nodes=1,2", "--nodes", "3"],
        "--nodes: is varied, and given besides: leave out one or the other (got 3)",
    ),
    "an option besides that is spelled otherwise": (["--vary", "--work_limit=1,2", "--work-limit", "3"], "is varied, and given besides"),
    "a setting besides": (["--vary", "/sparse=4", "--set", "sparse=3"], "/sparse: is varied, and given besides"),
    "no values": (["--vary", "/sparse"], "must be PATH=VALUES"),
    "twice": (["--vary", "/sparse=4", "--vary", "/sparse=5"], "is varied twice"),
    "a value twice": (["--vary", "/sparse=4,4"], "names a value twice"),
    "nothing": ([], "needs at least one --vary"),
    "no price": (["--vary", "/sparse=4", "--pareto", "throughput,price"], "price_per_hour: 12.5"),
    "no quantity": (["--vary", "/sparse=4", "--pareto", "throughput,beauty"], "must be two of"),
    "a figure of two axes": (["--vary", "/sparse=4", "--vary", "/dense=4", "--format", "svg"], "give one --vary"),
    "too many": (["--vary", f"/dense={','.join(map(str, range(1, 10_002)))}"], "must be at most 10,000"),
    "a job that the host can't have": (["--vary", "--ranks=3,4", "--nodes", "2"], "multiple of the number of nodes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_solved(emplace_here: Emplace, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def solved(*_: Any) -> None:
        raise AssertionError("solved")

    monkeypatch.setattr("emplace.studies.sweep.solve_points", solved)
    arguments, said = REFUSED[case]
    done = emplace_here("sweep", "suite", *arguments, "--host", "cpu-dual-socket")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_multiples_are_of_what_is_given(emplace_here: Emplace) -> None:
    asked = ("sweep", "suite", "--set", "sparse=2", "--set", "mlp=64^2", "--host", "zion", "--format", "json", "--work-limit", "0.1")
    done = emplace_here(*asked, "--ranks", "2", "--vary", "/sparse=x1,x2", "--vary", "--ranks=x1")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["points"]) == 2


def test_no_host_and_no_model(emplace_here: Emplace) -> None:
    assert "--hosts all" in emplace_here("sweep", "suite", "--vary", "/sparse=4").stderr
    assert emplace_here("sweep", "m9", "--vary", "/sparse=4", "--host", "zion").returncode == 2


def test_watts_follow_utilisation_where_the_host_says_what_it_draws_idle() -> None:
    host = builtin_host("cpu-dual-socket").to_data()
    host["node"] |= {"idle_power_w": 200, "price_per_hour": 3.6}
    host.pop("remote_servers")
    [point] = emplace.sweep("suite", [host], ["/sparse=4"]).points
    running = point.figures.running
    assert running is not None
    assert running.power_w is not None
    assert 200 < running.power_w < 500
    throughput = point.figures.throughput or 0.0
    assert running.joules_per_million_examples == pytest.approx(running.power_w * 1e6 / throughput)
    assert running.price_per_million_examples == pytest.approx(3.6 / 3600 * 1e6 / throughput)


def test_watts_and_prices_are_spelled_one_way() -> None:
    host = builtin_host("dgx-h100").to_data()
    host["node"] |= {"power_w": 10_200, "price_per_hour": 1234.5}
    text = as_text(sweep_view(emplace.sweep("suite", [host], ["/sparse=4"], pareto=[("throughput", "power")], settings=["mlp=64^2"])))
    points, _, front = text.partition("Pareto front of throughput and power")
    assert "  10,200" in points
    assert front.split("\n")[2].split()[-3:] == ["1", "10,200", "1,234.50"]
    assert "e+" not in text


@pytest.mark.parametrize(
    ("figure", "shown"),
    [(0.5, "0.5"), (812, "812"), (999.6, "1.00k"), (54_100, "54.1k"), (999_700, "1.00M"), (2.563e6, "2.56M"), (1e9, "1.00G")],
)
def test_figures_have_three_digits_and_a_letter(figure: float, shown: str) -> None:
    assert short(figure) == shown
