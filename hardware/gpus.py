"""NVIDIA GPUs of this machine, through nvidia-smi: fast, and without importing torch."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

from emplace.placement.errors import ToolError

_QUERY = "name,memory.total,power.limit,pcie.link.gen.max,pcie.link.width.max"
_PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes per second of one lane in one direction after line coding, by PCIe generation (PCI-SIG base specifications)."""


@dataclass(frozen=True)
class Datasheet:
    """Rates that NVIDIA's datasheet of a GPU states. `link` is one direction of its NVLinks together."""

    memory_bandwidth: float
    fp32_flops: float
    link: float | None


DATASHEETS: tuple[tuple[str, Datasheet], ...] = (
    ("H200", Datasheet(4.8e12, 67e12, 450e9)),
    ("H100 80GB", Datasheet(3.35e12, 67e12, 450e9)),
    ("H100 PCIe", Datasheet(2.0e12, 51e12, None)),
    ("A100-SXM4-80GB", Datasheet(2.039e12, 19.5e12, 300e9)),
    ("A100-SXM4-40GB", Datasheet(1.555e12, 19.5e12, 300e9)),
    ("A100", Datasheet(1.555e12, 19.5e12, None)),
    ("V100-SXM2", Datasheet(900e9, 15.7e12, 150e9)),
    ("V100", Datasheet(900e9, 14e12, None)),
    ("L40S", Datasheet(864e9, 91.6e12, None)),
    ("L40", Datasheet(864e9, 90.5e12, None)),
    ("L4", Datasheet(300e9, 30.3e12, None)),
    ("A10", Datasheet(600e9, 31.2e12, None)),
    ("T4", Datasheet(320e9, 8.1e12, None)),
)
"""(name, rates). The first one counts whose name is among the words that the driver calls the GPU."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver describes it."""

    name: str
    memory_bytes: int
    power_w: float | None
    pcie_bytes_per_s: float | None

    @property
    def datasheet(self) -> Datasheet | None:
        return next((sheet for part, sheet in DATASHEETS if re.search(rf"\b{re.escape(part)}\b", self.name)), None)

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
    """One GPU per CSV line of nvidia-smi; `[N/A]` is a figure that the driver does not know."""
    return [_gpu([part.strip() for part in line.split(",")]) for line in answer.splitlines() if line.strip()]


def _gpu(parts: list[str]) -> Gpu:
    name, memory_mib, power, generation, lanes = parts
    lane = _PCIE_LANE_BYTES_PER_S.get(int(generation)) if generation.isdigit() else None
    return Gpu(
        name=name,
        memory_bytes=int(memory_mib) * 2**20,
        power_w=float(power) if re.fullmatch(r"[\d.]+", power) else None,
        pcie_bytes_per_s=lane * int(lanes) if lane is not None and lanes.isdigit() else None,
    )
