"""What is timed, and how often batches come back."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import torch

from emplace.profiler.design.points import Kind
from emplace.profiler.measure.exercise import batches_to_rotate, time_round

pytestmark = pytest.mark.torch

MIB = 2**20


class Recording:
    """Writes down that it was visited, and with which batch."""

    def __init__(self, name: str, visits: list[tuple[str, int]]) -> None:
        self._name, self._visits = name, visits

    def prepare(self, repetition: int) -> None:
        self._visits.append((self._name, repetition))

    def forward(self) -> None:
        assert self._visits[-1][0] == self._name

    def backward(self) -> None:
        assert self._visits[-1][0] == self._name


def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody to wait for."""
    monkeypatch.setattr("emplace.profiler.measure.exercise.dist.barrier", lambda: None)
    monkeypatch.setattr("emplace.profiler.measure.exercise.largest_of_ranks", lambda value: value)


def visits_of(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """A round of two points and the reference."""
    one_process(monkeypatch)
    visits: list[tuple[str, int]] = []
    points = [Recording("first", visits), Recording("second", visits)]
    timings = time_round(points, Recording("reference", visits), kind, 0.05, torch.device("cpu"))
    assert len(timings) == 3
    assert len({len(times) for both in timings for times in both}) == 1
    return visits


def test_what_a_rank_computes_always_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = visits_of(Kind.LOOKUP, monkeypatch)
    before = {name: {visits[at - 1][0] for at, (visited, _) in enumerate(visits) if visited == name} for name in ("first", "second")}
    assert before == {"first": {"reference"}, "second": {"reference"}}
    batches = [batch for name, batch in visits if name == "reference"]
    assert all(batch != following for batch, following in pairwise(batches))


def test_the_order_of_a_round_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no point is always measured after the same other one."""
    names = [name for name, _ in visits_of(Kind.COLLECTIVE, monkeypatch)]
    turns = [name for name, following in pairwise(names) if name != following]
    assert {before for before, name in pairwise(turns) if name == "first"} == {"second", "reference"}


def test_a_whole_step_takes_turns_with_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a plan that is trained does."""
    one_process(monkeypatch)
    visits: list[tuple[str, int]] = []
    time_round([Recording("step", visits)], Recording("reference", visits), Kind.STEP, 0.05, torch.device("cpu"))
    assert {tuple(name for name, _ in visits[start : start + 6]) for start in range(0, len(visits), 12)} == {("step",) * 6}
    assert {tuple(name for name, _ in visits[start : start + 6]) for start in range(6, len(visits), 12)} == {("reference",) * 6}


class SlowAtFirst:
    """Every sixth forward, from the first, finds something else in the caches."""

    def __init__(self) -> None:
        self._steps = 0

    def prepare(self, repetition: int) -> None:
        del repetition

    def forward(self) -> None:
        time.sleep(0.02 if self._steps % 6 == 0 else 0.0)
        self._steps += 1

    def backward(self) -> None:
        raise AssertionError("of a step, all is timed as forward")


def test_the_first_step_after_another_exercise_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    one_process(monkeypatch)
    timings = time_round([SlowAtFirst()], SlowAtFirst(), Kind.STEP, 0.5, torch.device("cpu"))
    for forward, _ in timings:
        assert len(forward) % 5 == 0
        assert max(forward) < 15_000


def test_batches_come_back_when_their_rows_have_left_the_caches() -> None:
    assert batches_to_rotate(8 * MIB) * 8 * MIB >= 128 * MIB
    assert [batches_to_rotate(touched) for touched in (0.0, 10.0, 64 * MIB, 10_000 * MIB)] == [32, 32, 6, 6]
