"""A worker hears the signal that ends it, whatever it does at that moment."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from emplace.app.jobs.stopping import StopSignal


@pytest.mark.timeout(60)
def test_a_signal_in_the_midst_of_waiting_stops_it() -> None:
    """Hundreds of signals, each while `wait` is being called again and again: none may be lost, and none may hang it."""
    for number in range(300):
        with StopSignal() as stop:
            assert not stop.wait(0)
            sender = threading.Timer(number * 1e-5, os.kill, (os.getpid(), signal.SIGTERM))
            sender.start()
            while not stop.wait(0):
                pass
            sender.join()
            assert stop.wait(0)


def test_a_signal_that_came_before_is_not_waited_for() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.wait(60)


def test_two_signals_are_one_stop() -> None:
    with StopSignal() as stop:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert stop.wait(0)


def test_afterwards_a_signal_does_what_it_did_before() -> None:
    """A worker that is through with its job ends at the next signal, whatever it still waits for."""
    before = [signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT)]
    with StopSignal():
        pass
    assert [signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT)] == before
