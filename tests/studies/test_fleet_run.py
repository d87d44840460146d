"""Small asynchronous fleets: what limits, and fleets that are trained here."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import pytest

import emplace
from emplace import extras
from emplace.app.cli.output import as_text
from emplace.app.reports.asynchronous_text import fleet_run_view
from emplace.app.reports.loss_svg import loss_svg
from emplace.executor.asynchronous.job import FleetJob, FleetRankReport, FleetTurns, HeldOutQuality, Mark, Role, Staleness
from emplace.executor.asynchronous.measured import WARMUP_ROUNDS, FleetMeasurement, LossPoint, measured_fleet
from emplace.executor.asynchronous.settings import Averaging, FleetSettings, fleet_settings
from emplace.executor.errors import ExecutionFailed
from emplace.studies.fleet_prediction import Bottleneck, RoundCosts, predicted_loads
from emplace.studies.fleet_run import FleetRun
from tests.app.cli.command import Emplace, start_emplace
from tests.app.cli.conftest import emplace_here
from tests.app.processes import descendants_of, is_alive, wait_until

__all__ = ["emplace_here"]

SMALL = ("batch=64", "rounds=40", "tables=4", "hash=100", "mlp=16", "dim=8", "tau=4")


@pytest.mark.parametrize(
    ("costs", "limit"),
    [
        (RoundCosts(1000.0, (100.0,), (10.0,), 0.0), Bottleneck.CORES),
        (RoundCosts(500.0, (2000.0,), (10.0,), 0.0), Bottleneck.SPARSE_SERVER),
        (RoundCosts(500.0, (100.0,), (2000.0,), 0.0), Bottleneck.DENSE_SERVER),
    ],
)
def test_what_takes_longest_limits(costs: RoundCosts, limit: Bottleneck) -> None:
    found = predicted_loads(FleetSettings(), costs, cores=2)
    assert found.limiting is limit
    assert found.utilisation[limit] > 0.9


def test_one_thread_is_limited_by_itself_alone() -> None:
    found = predicted_loads(FleetSettings(trainers=1, threads=1), RoundCosts(900.0, (100.0,), (0.0,), 0.0), cores=2)
    assert found.limiting is Bottleneck.TRAINERS
    assert found.throughput_examples_per_s == pytest.approx(200e3)
    assert found.utilisation[Bottleneck.TRAINERS] == pytest.approx(1.0)


@pytest.mark.parametrize("sparse_us", [100.0 + step / 7 for step in range(20)])
def test_where_each_thread_has_a_core_the_cores_limit(sparse_us: float) -> None:
    """Threads and cores are busy for the same share then, but for rounding."""
    found = predicted_loads(FleetSettings(trainers=1, threads=2), RoundCosts(900.0, (sparse_us,), (10.0,), 0.0), cores=2)
    assert found.utilisation[Bottleneck.CORES] == pytest.approx(found.utilisation[Bottleneck.TRAINERS], rel=1e-12)
    assert found.limiting is Bottleneck.CORES


def test_no_round_waits_for_an_average_in_the_background() -> None:
    costs = RoundCosts(1000.0, (100.0,), (500.0,), 50.0)
    in_round, in_background = (
        predicted_loads(FleetSettings(averaging=each), costs, cores=16).throughput_examples_per_s for each in Averaging
    )
    assert in_background > 1.2 * in_round


def test_short_rounds_leave_cores_idle() -> None:
    def cores_busy(round_us: float, tau: int = 16) -> float:
        costs = RoundCosts(0.8 * round_us, (0.1 * round_us,), (0.1 * round_us,), 0.0)
        return predicted_loads(FleetSettings(tau=tau), costs, cores=2).utilisation[Bottleneck.CORES]

    assert cores_busy(1e3) < cores_busy(1e4) < cores_busy(1e5)
    assert cores_busy(1e3) < 0.95 * cores_busy(1e6)
    assert cores_busy(1e3, tau=1) < cores_busy(1e3)  # threads wait once more in a round, for an average


def test_each_role_has_its_processes() -> None:
    settings = fleet_settings(["trainers=2", "threads=3", "batch=60", "sparse_servers=2", "averaging=shadowsync"])
    counts = {role: sum(each is role for each, _ in FleetJob(settings=settings).roles) for role in Role}
    assert counts == {Role.SPARSE_SERVER: 2, Role.DENSE_SERVER: 1, Role.THREAD: 6, Role.SHADOW: 2}
    together = FleetJob(settings=settings, synchronous=True)
    assert {role for role, _ in together.roles} == {Role.SPARSE_SERVER, Role.THREAD}
    assert (together.batch, together.rounds) == (10, 6 * settings.rounds)


def test_servers_of_a_role_are_asked_at_once() -> None:
    """So a thread waits for the slowest of them, and all of them take cores."""
    settings, many_cores = fleet_settings(["trainers=1", "threads=1", "sparse_servers=2"]), 10_000
    found = predicted_loads(settings, RoundCosts(600.0, (400.0, 200.0), (0.0,), 0.0), many_cores)
    assert found.throughput_examples_per_s == pytest.approx(200e3, rel=1e-3)
    assert found.utilisation[Bottleneck.CORES] * many_cores == pytest.approx(1.2, rel=1e-3)
    assert found.utilisation[Bottleneck.SPARSE_SERVER] == pytest.approx(0.4, rel=1e-3)
    assert found.limiting is Bottleneck.TRAINERS


def test_all_rounds_of_a_fleet_are_in_its_turns() -> None:
    fleets = [FleetJob(settings=fleet_settings([f"rounds={rounds}", "sparse_servers=2"])) for rounds in (100, 75)]
    turns = FleetTurns(fleets=tuple(fleets), order=(0, 1, 0, 1, 0))
    for number, counts in ((0, 3), (1, 2)):
        parts = turns.rounds_of(number)
        assert list(chain.from_iterable(parts)) == list(range(fleets[number].rounds))
        assert len(parts) == counts
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert turns.roles == [(number, role, index) for number in (0, 1) for role, index in fleets[number].roles]
    assert turns.client_ranks(1) == [rank for rank in turns.thread_ranks if rank >= len(fleets[0].roles)]


def reported(role: Role, turns: Sequence[Sequence[tuple[float, float]]], index: int = 0) -> FleetRankReport:
    """The report of a process with marks at these (seconds, seconds of processor time)."""
    return FleetRankReport(
        role=role,
        index=index,
        turns=tuple(tuple(Mark(at_s=at_s, cpu_s=cpu_s) for at_s, cpu_s in turn) for turn in turns),
        losses=(0.5,) * sum(len(turn) - 1 for turn in turns),
        staleness=Staleness(mean=0.0, most=0),
        updates=20,
        quality=HeldOutQuality(normalised_entropy=1.0, best_normalised_entropy=0.8),
    )


def test_time_between_two_turns_counts_for_nothing() -> None:
    """Two threads do a round a second in one turn and, half as fast, in another; a server that works a tenth of it; other fleets in between."""
    job = FleetJob(settings=fleet_settings(["trainers=1", "threads=2", "rounds=20"]))
    first = [(float(number), 0.5 * number) for number in range(11)]
    second = [(1000.0 + 2 * number, 5.0 + 0.5 * number) for number in range(11)]
    served = [(at_s, (at_s - (980 if at_s >= 1000 else 0)) / 10) for at_s, _ in (*first, (20.0, 0.0), *second)]
    threads = [reported(Role.THREAD, (first, second), index) for index in range(2)]
    found = measured_fleet(job, [reported(Role.SPARSE_SERVER, (served,)), *threads])
    rounds, lasted_s = 2 * 2 * (10 - WARMUP_ROUNDS), 3 * (10 - WARMUP_ROUNDS)
    assert found.throughput_examples_per_s == pytest.approx(rounds / lasted_s * job.batch)
    assert found.cpu_us(Role.SPARSE_SERVER) == pytest.approx([lasted_s / 10 / rounds * 1e6])
    assert found.cpu_us(Role.THREAD) == pytest.approx([0.25e6] * 2)
    assert found.utilisation(Role.SPARSE_SERVER) == pytest.approx([0.1])
    assert found.curve[-1].examples == 40 * job.batch


def test_threads_that_were_never_at_work_together_say_nothing() -> None:
    job = FleetJob(settings=fleet_settings(["trainers=1", "threads=2", "rounds=20"]))
    reports = [
        reported(Role.THREAD, ([(start + number, float(number)) for number in range(21)],), index)
        for index, start in enumerate((0.0, 15.0))
    ]
    with pytest.raises(ExecutionFailed, match="train more rounds"):
        measured_fleet(job, reports)


REFUSED = {
    "no value": (["tau"], "must be NAME=VALUE, such as trainers=2"),
    "twice": (["tau=2", "tau=3"], "/tau: is set twice"),
    "an unknown name": (["taus=2"], "/taus"),
    "a batch that can't be shared out": (["batch=10"], "/batch: must be a multiple of all 4 threads"),
    "servers without tables": (["tables=1", "sparse_servers=2"], "/sparse_servers: must be no more than tables"),
    "more than is drawn": (["rounds=100000", "length=1000"], "/rounds: examples of all rounds must fit in 4 GiB"),
    "no such averaging": (["averaging=never"], "/averaging"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_settings_are_refused(emplace_here: Emplace, case: str) -> None:
    given, said = REFUSED[case]
    done = emplace_here("asynchronous", *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.torch
@pytest.mark.parametrize("averaging", Averaging)
def test_a_fleet_is_trained_and_measured(emplace_here: Emplace, averaging: Averaging) -> None:
    baseline = "--baseline" if averaging is Averaging.EASGD else "--no-baseline"
    done = emplace_here("asynchronous", *SMALL, f"averaging={averaging}", baseline, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = FleetRun.model_validate(json.loads(done.stdout))
    quality, stale = found.asynchronous.quality, found.asynchronous.staleness
    assert quality.best_normalised_entropy < quality.normalised_entropy < 1.2
    assert found.asynchronous.examples == 4 * 40 * 64
    assert found.asynchronous.curve[-1].examples == found.asynchronous.examples
    assert found.asynchronous.curve[-1].normalised_entropy < found.asynchronous.curve[0].normalised_entropy
    assert stale is not None
    assert stale.rows.most >= stale.rows.mean > 0
    assert all(0 < share < 1.05 for share in found.measured.utilisation.values())
    assert found.measured.throughput_examples_per_s > 0
    assert (found.synchronous is not None) == (averaging is Averaging.EASGD)
    if found.synchronous is not None:
        assert found.synchronous.examples == found.asynchronous.examples
        assert found.synchronous.staleness is None


@pytest.mark.torch
def test_a_thread_alone_reads_nothing_stale(emplace_here: Emplace) -> None:
    done = emplace_here("asynchronous", *SMALL, "trainers=1", "threads=1", "--no-baseline", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = FleetRun.model_validate(json.loads(done.stdout))
    stale = found.asynchronous.staleness
    assert stale is not None
    assert stale.rows.most == stale.parameters.most == stale.centre.most == 0
    assert found.predicted.limiting is found.measured.limiting is Bottleneck.TRAINERS


@pytest.mark.torch
def test_what_takes_too_long_is_ended_and_leaves_nothing(emplace_here: Emplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = emplace_here("asynchronous", "--timeout", "1")
    assert done.returncode == 2
    assert "training did not end within 1 s" in done.stderr
    assert list(tmp_path.glob("emplace-*")) == []


@pytest.mark.torch
def test_an_interrupt_ends_all_processes_and_leaves_no_folder(tmp_path: Path) -> None:
    """As a person's Ctrl-C, while all threads and servers are at work."""
    endless = ("rounds=100000", "batch=4", "tables=1", "length=1", "mlp=16", "--no-baseline")
    command = start_emplace("asynchronous", *endless, cwd=tmp_path, home=tmp_path / "home", TMPDIR=str(tmp_path))
    wait_until(lambda: len(list(tmp_path.glob("emplace-fleet-*/fleet-1/rounds-1"))) == 1, 60)
    below = wait_until(lambda: found if len(found := descendants_of(command.pid)) >= 9 else None, 60)
    command.send_signal(signal.SIGINT)
    assert command.wait(30) == 130
    wait_until(lambda: not any(map(is_alive, below)), 5)
    assert list(tmp_path.glob("emplace-*")) == []


@pytest.mark.torch
def test_a_training_that_diverges_is_refused(emplace_here: Emplace) -> None:
    done = emplace_here("asynchronous", *SMALL[:-3], "mlp=64^9", "dim=8", "learning_rate=10", "--no-baseline")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the training diverged" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_a_program_trains_a_fleet() -> None:
    found = emplace.asynchronous([*SMALL, "trainers=1"], baseline=False)
    assert found.synchronous is None
    assert found.settings.trainers == 1
    with pytest.raises(emplace.InvalidDocument, match="/tau"):
        emplace.asynchronous({"tau": 0})


def test_without_torch_a_program_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "execute", ("no_such_package",))
    with pytest.raises(emplace.ToolError, match=r"pip install '\.\[execute\]'"):
        emplace.asynchronous()


@pytest.fixture
def trained() -> FleetRun:
    """Without what only a training says."""
    loads = predicted_loads(FleetSettings(), RoundCosts(1000.0, (100.0,), (10.0,), 0.0), cores=2)
    quality = HeldOutQuality(normalised_entropy=0.8, best_normalised_entropy=0.7)
    curve = (LossPoint(examples=100, normalised_entropy=1.02), LossPoint(examples=200, normalised_entropy=0.81))
    fleet = FleetMeasurement(throughput_examples_per_s=1.0, examples=200, stations=(), quality=quality, curve=curve)
    return FleetRun(settings=FleetSettings(), cores=2, alone=fleet, asynchronous=fleet, synchronous=fleet, predicted=loads, measured=loads)


def test_a_figure_has_a_line_for_each_training_above_the_best(trained: FleetRun) -> None:
    drawn = [dict(part.attrib) for part in ElementTree.fromstring(loss_svg(trained)).iter()]
    lines = [[tuple(map(float, place.split(","))) for place in each["points"].split()] for each in drawn if "points" in each]
    assert len(lines) == 2
    best = next(float(each["y1"]) for each in drawn if "stroke-dasharray" in each)
    (first, last), _ = lines
    assert first[0] < last[0]
    assert first[1] < last[1] < best
    assert "synchronous" in loss_svg(trained).replace("asynchronous", "")
    alone = loss_svg(trained.model_copy(update={"synchronous": None}))
    assert "synchronous" not in alone.replace("asynchronous", "")


def test_a_loss_that_stays_the_same_has_a_figure(trained: FleetRun) -> None:
    flat = trained.asynchronous.model_copy(update={"curve": (LossPoint(examples=100, normalised_entropy=0.7),)})
    figure = loss_svg(trained.model_copy(update={"asynchronous": flat, "synchronous": None}))
    assert "nan" not in figure
    assert ">0.7<" in figure


def test_pixels_want_a_file(emplace_here: Emplace) -> None:
    done = emplace_here("asynchronous", "--format", "png")
    assert done.returncode == 2
    assert "say with --out" in done.stderr


def test_a_machine_that_others_use_is_told_of(trained: FleetRun) -> None:
    slow = {limit: share / 2 for limit, share in trained.measured.utilisation.items()}
    disturbed = trained.model_copy(update={"measured": trained.measured.model_copy(update={"utilisation": slow})})
    assert not trained.was_disturbed
    assert "as busy as predicted" not in as_text(fleet_run_view(trained))
    assert "Nothing was as busy as predicted" in as_text(fleet_run_view(disturbed))
