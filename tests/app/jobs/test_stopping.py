"""A worker hears the signal that ends it, whatever it does at that moment."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from emplace.app.jobs.stopping import StopSignal


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT)}
    yield
    for kind, handler in before.items():
        signal.signal(kind, handler)


@pytest.mark.timeout(60)
def test_a_signal_in_the_midst_of_waiting_stops_it() -> None:
    """Hundreds of signals, each while `wait` is being called again and again: none may be lost, and none may hang it."""
    for number in range(300):
        stop = StopSignal()
        assert not stop.wait(0)
        sender = threading.Timer(number * 1e-5, os.kill, (os.getpid(), signal.SIGTERM))
        sender.start()
        while not stop.wait(0):
            pass
        sender.join()
        assert stop.wait(0)


def test_a_signal_that_came_before_is_not_waited_for() -> None:
    stop = StopSignal()
    signal.raise_signal(signal.SIGINT)
    assert stop.wait(60)


def test_two_signals_are_one_stop() -> None:
    stop = StopSignal()
    for _ in range(2):
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(0)
