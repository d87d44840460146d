"""Peak bytes of this process: resident memory on a CPU, allocated device memory on CUDA."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path

import torch

_KIB = 1024


class PeakMemory:
    """Counts from its construction: `peak_bytes` is the high-water mark above what the process held then."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        _release_free_memory()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before_bytes = torch.cuda.memory_allocated(device)
        else:
            self._before_bytes = _status_bytes("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        held = torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else _status_bytes("VmHWM")
        return max(0, held - self._before_bytes)


def _status_bytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    if match is None:
        raise RuntimeError(f"/proc/self/status has no {field}")
    return int(match[1]) * _KIB


def _release_free_memory() -> None:
    """Give what an earlier plan freed back to the system, or it would hide what the next one takes."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
