"""Peak bytes of training under a plan: resident memory on a CPU, allocated device memory on CUDA.

Measured in a pass of its own, after everything that is timed. What the C library keeps of freed memory counts as resident, and
differs from rank to rank and from run to run. For this pass it keeps nothing (runtime.allocator), nor small blocks from one step to
the next, so that the high-water mark is of what is in use, as on CUDA; but every step then waits for fresh pages. The pass has a
thread of its own and with it a heap of its own: holes that earlier steps left in theirs would be filled first, and kept.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from emplace.executor.training import timed_steps, training_of
from emplace.placement.plan import Plan
from emplace.runtime.allocator import return_freed_memory, returning_freed_memory
from emplace.runtime.dlrm import Batch

_KIB = 1024
_UNMEASURED = 3
"""So many trainings of one step each come before the one that is measured."""


def peak_bytes(plan: Plan, device: torch.device, batches: Sequence[Batch]) -> int:
    """The most bytes that building the model and taking a step for each of `batches` takes, above what the process held before.

    All ranks call it at the same time. Nothing can be timed in this process afterwards.
    """
    return_freed_memory()
    with ThreadPoolExecutor(max_workers=1) as thread:
        # What earlier steps left behind goes while others run: up to 15 MiB, not all of it in the first.
        for _ in range(_UNMEASURED):
            thread.submit(_train, plan, device, batches[:1]).result()
            before = _held_bytes(device)
        _reset_peak(device)
        with returning_freed_memory():
            thread.submit(_train, plan, device, batches).result()
    highest = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else _status_bytes("VmHWM")
    return max(0, highest - before)


def _train(plan: Plan, device: torch.device, batches: Sequence[Batch]) -> None:
    if device.type == "cuda":
        torch.cuda.set_device(device)
    timed_steps(training_of(plan, device), batches, lambda _: None)


def _held_bytes(device: torch.device) -> int:
    """Bytes that are in use now."""
    gc.collect()
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return_freed_memory()
    return _status_bytes("VmRSS")


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        Path("/proc/self/clear_refs").write_text("5")


def _status_bytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    if match is None:
        raise RuntimeError(f"/proc/self/status has no {field}")
    return int(match[1]) * _KIB
