"""A plan by itself takes turns with the reference as often as the steps allow that it has once it has settled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from emplace.executor import rank

pytestmark = pytest.mark.torch


class FasterOnceSettled:
    """Stands in for a trial: its first steps are slow, so that few would be timed."""

    def __init__(self, *_: Any) -> None:
        self.steps, self.rounds = 30, 0

    def settle(self) -> None:
        self.steps = 200

    def train(self, _part: int, parts: int, *, after_another: bool) -> None:
        assert after_another
        self.rounds = parts

    def report(self, visits: tuple[Any, ...]) -> int:
        assert len(visits) == self.rounds + 1
        return self.rounds


def test_rounds_follow_from_the_steps_after_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "Trial", FasterOnceSettled)
    monkeypatch.setattr(rank, "has_reference", lambda _: True)
    monkeypatch.setattr(rank, "reference_step", lambda *_: object())
    monkeypatch.setattr(rank, "visit_us", lambda *_: [1.0])
    plan, job, nothing = SimpleNamespace(), SimpleNamespace(seed=0, rounds=1), SimpleNamespace()
    assert rank._execute([plan], job, nothing, nothing, nothing) == [20]  # type: ignore[arg-type, comparison-overlap, list-item]
