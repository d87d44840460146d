"""Clocks in microseconds. The profiler times with both, the executor with `now_us`."""

from __future__ import annotations

import time

import torch


def now_us(device: torch.device) -> float:
    """Microseconds of a monotonic clock. On CUDA, waits for all queued work first, so that a difference is work done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns() / 1e3


def work_us(device: torch.device) -> float:
    """Microseconds that a thread which computes alone has been on a core: what other processes had of the core is not in it.

    With several threads, or on CUDA, it is `now_us`.
    """
    if device.type == "cuda" or torch.get_num_threads() > 1:
        return now_us(device)
    return time.thread_time_ns() / 1e3
