"""Time that passes, and time that a rank works."""

from __future__ import annotations

import time

import pytest
import torch

from emplace.runtime.clock import passed_us, worked_us

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


def test_a_thread_that_waits_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert passed_us(lambda: time.sleep(0.05), CPU) >= 50e3
    assert worked_us(lambda: time.sleep(0.05), CPU) < 25e3


def test_of_several_threads_the_time_that_passes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert worked_us(lambda: time.sleep(0.05), CPU) >= 50e3
