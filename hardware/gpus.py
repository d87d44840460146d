"""NVIDIA GPUs of this machine, through nvidia-smi: fast, and without importing torch."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

from emplace.hardware.gpu_datasheets import Datasheet, datasheet_of
from emplace.placement.errors import ToolError

_QUERY = "name,memory.total,power.limit,pcie.link.gen.max,pcie.link.width.max"
_PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes per second of one lane in one direction after line coding, by PCIe generation (PCI-SIG base specifications)."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver describes it."""

    name: str
    memory_bytes: int
    power_w: float | None
    pcie_bytes_per_s: float | None

    @property
    def datasheet(self) -> Datasheet | None:
        return datasheet_of(self.name)

    @property
    def kind(self) -> str:
        """The name as a device kind: `NVIDIA-H100-80GB-HBM3`."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.name).strip("-")


def read_gpus() -> list[Gpu]:
    """The GPUs of this machine, none where there is no NVIDIA driver. Raises ToolError when the driver fails."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(f"nvidia-smi is installed but failed: {error}") from error
    return parse_gpus(answer)


def parse_gpus(answer: str) -> list[Gpu]:
    """One GPU per CSV line of nvidia-smi; `[N/A]` is a figure that the driver does not know. Raises ToolError where that is the memory."""
    return [_gpu([part.strip() for part in line.split(",")]) for line in answer.splitlines() if line.strip()]


def _gpu(parts: list[str]) -> Gpu:
    name, memory_mib, power, generation, lanes = parts
    if not memory_mib.isdigit():
        raise ToolError(
            f"the NVIDIA driver does not say how much memory {name} has ({memory_mib}): describe this machine in a host document"
        )
    lane = _PCIE_LANE_BYTES_PER_S.get(int(generation)) if generation.isdigit() else None
    return Gpu(
        name=name,
        memory_bytes=int(memory_mib) * 2**20,
        power_w=float(power) if re.fullmatch(r"[\d.]+", power) else None,
        pcie_bytes_per_s=lane * int(lanes) if lane is not None and lanes.isdigit() else None,
    )
