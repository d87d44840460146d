"""Learning rates that are tuned in stored trials: killed and resumed, and what a change of the batch costs before and after."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from emplace import extras
from emplace.placement.errors import ToolError
from emplace.profiler.alone import alone
from emplace.studies.learning_rate import FoundRate, RateSearch, find_rate
from emplace.studies.retuning import Retuning
from tests.app.cli.command import Emplace
from tests.app.cli.conftest import emplace_here

__all__ = ["emplace_here"]

needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="optuna is not installed")
SEARCH = RateSearch("of a test", 1e-3, 1e3, trials=14, seed=3)

KILLED = """
import math, sys, time
from pathlib import Path
from emplace.studies.learning_rate import RateSearch, find_rate
def loss(rate):
    print(rate, flush=True)
    if len(tried) == 11:
        time.sleep(60)
    tried.append(rate)
    return (math.log10(rate) - 1) ** 2
tried = []
find_rate(RateSearch("of a test", 1e-3, 1e3, trials=14, seed=3), loss, Path(sys.argv[1]), lambda done, all_: None)
"""


def bowl(rate: float) -> float:
    """Least at 10."""
    return (math.log10(rate) - 1) ** 2


def searched(store: Path, search: RateSearch = SEARCH) -> tuple[FoundRate, list[float]]:
    tried: list[float] = []

    def loss(rate: float) -> float:
        tried.append(rate)
        return bowl(rate)

    return find_rate(search, loss, store, lambda _done, _all: None), tried


@needs_optuna
def test_it_finds_the_best_rate_and_tries_nothing_again(tmp_path: Path) -> None:
    found, tried = searched(tmp_path / "deep" / "store.sqlite")
    assert len(tried) == 14
    assert 3 < found.learning_rate < 30
    again, more = searched(tmp_path / "deep" / "store.sqlite")
    assert more == []
    assert again == FoundRate(found.learning_rate, found.loss, 14, 14)


@needs_optuna
def test_a_search_that_is_killed_goes_on_to_the_same_rates(tmp_path: Path) -> None:
    _, whole = searched(tmp_path / "whole.sqlite")
    store = tmp_path / "killed {braces}.sqlite"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(store)], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        before = [float(program.stdout.readline()) for _ in range(12)]
        program.send_signal(signal.SIGKILL)
    found, after = searched(store)
    assert found.kept == 11
    assert before == pytest.approx(whole[:12])
    assert after == pytest.approx(whole[11:])


@needs_optuna
def test_rates_that_diverge_are_passed_by(tmp_path: Path) -> None:
    found = find_rate(SEARCH, lambda rate: math.inf if rate > 1 else -rate, tmp_path / "store.sqlite", lambda _done, _all: None)
    assert found.learning_rate <= 1


@needs_optuna
def test_a_store_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    store.write_text("this is no database, but it is long enough to be taken for one, were it one" * 50)
    with pytest.raises(ToolError, match="can't be used as a store"):
        searched(store)
    with alone(tmp_path / "other.sqlite.lock", ""), pytest.raises(ToolError, match="another process"):
        searched(tmp_path / "other.sqlite")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--new-batch", "64"), "must be another batch"),
        (("--new-batch", "100000"), "at least one batch"),
        (("--learning-rate", "0"), "greater than 0"),
        (("--trials", "0"), "/trials"),
    ],
)
def test_what_makes_no_sense_is_refused(given: tuple[str, ...], said: str, emplace_here: Emplace) -> None:
    done = emplace_here("retune", *given)
    assert done.returncode == 2
    assert said in done.stderr


def test_without_optuna_it_says_what_to_install(emplace_here: Emplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "tune", ("no_such_package",))
    done = emplace_here("retune")
    assert done.returncode == 2
    assert "pip install '.[tune]'" in done.stderr


@needs_optuna
@pytest.mark.torch
def test_the_command_says_the_gap_before_and_after(emplace_here: Emplace, tmp_path: Path) -> None:
    asked = ("--old-batch", "128", "--new-batch", "1024", "--learning-rate", "0.2", "--optimizer", "adagrad")
    short = ("--examples", "4096", "--trials", "3", "--store", tmp_path / "store.sqlite")
    done = emplace_here("retune", *asked, *short, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = Retuning.model_validate(json.loads(done.stdout))
    assert found.linear.learning_rate == pytest.approx(1.6)
    assert found.square_root.learning_rate == pytest.approx(0.2 * 8**0.5)
    for outcome in (found.old, found.unchanged, found.tuned):
        assert outcome.entropy is not None
        assert outcome.entropy > found.best_entropy
        assert outcome.over_best == pytest.approx(outcome.entropy - found.best_entropy)
    assert found.gap_before is not None
    assert found.gap_after is not None
    assert (found.trials, found.trials_kept) == (3, 0)
    again = emplace_here("retune", *asked, *short)
    assert "3 trials, of which 3 were in the store before" in again.stdout


@pytest.mark.torch
def test_the_click_task_is_learned_down_towards_what_is_known_to_be_best() -> None:
    from emplace.executor.click_task import ClickTask
    from emplace.executor.click_training import ClickOptimizer, ClickTraining, best_quality, quality, trained

    task = ClickTask()
    few, many = (quality(task, trained(task, ClickTraining(256, examples, 0.1, ClickOptimizer.ADAGRAD))) for examples in (2_560, 40_960))
    assert best_quality(task) < many < few
    assert many - best_quality(task) < 0.05
