"""The clock that profiler and executor share: monotonic microseconds, after the device has finished."""

from __future__ import annotations

import time

import torch


def now_us(device: torch.device) -> float:
    """Microseconds of a monotonic clock. On CUDA, waits for all queued work first, so that a difference is work done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns() / 1e3
