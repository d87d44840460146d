"""What NVIDIA's datasheets say of GPUs, by what the driver calls them. Kinds that host documents know by name have the same figures there
(placement/device_figures.yaml)."""

from __future__ import annotations

import re
from typing import NamedTuple

from emplace.placement.model import Precision


class Datasheet(NamedTuple):
    """Rates as datasheets state them, of matrix units without sparsity; None of what a GPU has not."""

    memory_gb_s: float
    fp32_tflops: float
    tf32_tflops: float | None
    fp16_tflops: float | None
    fp8_tflops: float | None
    nvlink_gb_s: float | None
    """One direction of all of its NVLinks, where they join all GPUs of a machine: not of bridges between two."""

    @property
    def memory_bandwidth(self) -> float:
        """Bytes per second."""
        return self.memory_gb_s * 1e9

    @property
    def flops(self) -> dict[Precision, float]:
        """Flop per second of each precision that it has."""
        rates = {
            Precision.FP32: self.fp32_tflops,
            Precision.TF32: self.tf32_tflops,
            Precision.FP16: self.fp16_tflops,
            Precision.FP8: self.fp8_tflops,
        }
        return {precision: rate * 1e12 for precision, rate in rates.items() if rate is not None}


_SHEETS: dict[str, Datasheet] = {
    "GB200": Datasheet(8000, 80, 1250, 2500, 5000, 900),
    "B200": Datasheet(8000, 80, 1100, 2250, 4500, 900),
    "GH200 480GB": Datasheet(4000, 67, 494.5, 989, 1979, 450),
    "GH200 144G": Datasheet(4900, 67, 494.5, 989, 1979, 450),
    "H200 NVL": Datasheet(4800, 60, 417.5, 835.5, 1670.5, None),
    "H200": Datasheet(4800, 67, 494.5, 989, 1979, 450),
    "H100 NVL": Datasheet(3900, 60, 417.5, 835.5, 1670.5, None),
    "H100 PCIe": Datasheet(2000, 51, 378, 756, 1513, None),
    "H100 80GB HBM3": Datasheet(3350, 67, 494.5, 989, 1979, 450),
    "H800 PCIe": Datasheet(2000, 51, 378, 756, 1513, None),
    "H800": Datasheet(3350, 67, 494.5, 989, 1979, 200),
    "H20": Datasheet(4000, 44, 74, 148, 296, 450),
    "A100-SXM4-80GB": Datasheet(2039, 19.5, 156, 312, None, 300),
    "A100-SXM4-40GB": Datasheet(1555, 19.5, 156, 312, None, 300),
    "A100-SXM-64GB": Datasheet(1640, 19.5, 156, 312, None, 300),
    "A100 80GB PCIe": Datasheet(1935, 19.5, 156, 312, None, None),
    "A100-PCIE-40GB": Datasheet(1555, 19.5, 156, 312, None, None),
    "A800-SXM4-80GB": Datasheet(2039, 19.5, 156, 312, None, 200),
    "A800 80GB PCIe": Datasheet(1935, 19.5, 156, 312, None, None),
    "V100-SXM2": Datasheet(900, 15.7, None, 125, None, 150),
    "V100-SXM3": Datasheet(900, 15.7, None, 125, None, 150),
    "V100S-PCIE": Datasheet(1134, 16.4, None, 130, None, None),
    "V100-PCIE": Datasheet(900, 14, None, 112, None, None),
    "L40S": Datasheet(864, 91.6, 183, 362, 733, None),
    "L40": Datasheet(864, 90.5, 90.5, 181, 362, None),
    "L4": Datasheet(300, 30.3, 60, 121, 242.5, None),
    "A10G": Datasheet(600, 31.2, 35, 70, None, None),
    "A10": Datasheet(600, 31.2, 62.5, 125, None, None),
    "A30": Datasheet(933, 10.3, 82, 165, None, None),
    "A40": Datasheet(696, 37.4, 74.8, 149.7, None, None),
    "RTX A6000": Datasheet(768, 38.7, 77.4, 154.8, None, None),
    "T4": Datasheet(320, 8.1, None, 65, None, None),
}


def datasheet_of(name: str) -> Datasheet | None:
    """The datasheet of a GPU that the driver calls so: the first of those whose name is among its words."""
    return next((sheet for part, sheet in _SHEETS.items() if re.search(rf"\b{re.escape(part)}\b", name)), None)
