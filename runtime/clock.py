"""Clocks in microseconds."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

Action = Callable[[], None]
_LAUNCHING_CYCLES = 4_000_000
"""About 2 ms of a CUDA device: longer than launching a forward or a backward takes."""


def now_us(device: torch.device) -> float:
    """Microseconds of a monotonic clock. On CUDA, waits for all queued work first, so that a difference is work done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns() / 1e3


def passed_us(action: Action, device: torch.device) -> float:
    """Microseconds that pass while an action is done, with all that it queues on CUDA."""
    start = now_us(device)
    action()
    return now_us(device) - start


def worked_us(action: Action, device: torch.device) -> float:
    """Microseconds of an action that a rank does alone: on CUDA what its kernels take, however long it takes to launch them.

    Of a thread that computes alone it is the time on a core: what other processes had of the core is not in it. With several threads
    it is `passed_us`.
    """
    if device.type == "cuda":
        return _on_device_us(action, device)
    if torch.get_num_threads() > 1:
        return passed_us(action, device)
    start = time.thread_time_ns()
    action()
    return (time.thread_time_ns() - start) / 1e3


def _on_device_us(action: Action, device: torch.device) -> float:
    """Everything is launched while the device waits, so that it never waits for a launch in between."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda._sleep(_LAUNCHING_CYCLES)  # type: ignore[no-untyped-call]
    first.record()
    action()
    last.record()
    torch.cuda.synchronize(device)
    return float(1e3 * first.elapsed_time(last))
