"""The clocks of the profiler, the first shared with the executor: microseconds, after the device has finished."""

from __future__ import annotations

import time

import torch


def now_us(device: torch.device) -> float:
    """Microseconds of a monotonic clock. On CUDA, waits for all queued work first, so that a difference is work done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns() / 1e3


def work_us(device: torch.device) -> float:
    """Microseconds of work. Of a thread that computes alone its time on the core, without what others had of the core meanwhile;
    of several threads, or on CUDA, as now_us."""
    if device.type == "cuda" or torch.get_num_threads() > 1:
        return now_us(device)
    return time.thread_time_ns() / 1e3
