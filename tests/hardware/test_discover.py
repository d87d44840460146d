"""The host `local`: what is read from the machine, what is assumed, and that it never changes by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from emplace.hardware.discover import describe, discover_host, fingerprint
from emplace.hardware.gpus import Gpu, parse_gpus
from emplace.hardware.machine import Machine
from emplace.placement.errors import ToolError
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.node_shorthand import device_figures
from emplace.placement.reading import read_text
from emplace.placement.topology import build_topology
from emplace.placement.units import parse_rate

GIB = 2**30
MACHINE = Machine(
    cpu_model="Some CPU",
    cpu_flags=frozenset({"avx", "avx2", "fma"}),
    clock_hz=2.5e9,
    cores=8,
    sockets=1,
    numa_nodes=1,
    caches={"L2": 2**20},
    memory_bytes=64 * GIB,
    network_bits_per_s=25 * 10**9,
)
TWO_H100 = "NVIDIA H100 80GB HBM3, 81559, 700.00, 5, 16\nNVIDIA H100 80GB HBM3, 81559, 700.00, 5, 16\n"


def test_local_is_the_same_twice_and_survives_yaml() -> None:
    first, second = discover_host(), discover_host()
    assert first.content_digest() == second.content_digest()
    text = yaml.safe_dump(first.to_data())
    assert read_text(text, HostSpec, source="local", as_json=False) == first
    assert first.name == "local"
    assert first.fingerprint


def test_local_can_be_planned_for() -> None:
    topology = build_topology(discover_host(), nodes=1, ranks=2, with_servers=False)
    assert len(topology.trainers) == 2
    assert topology.node_ddr_capacity_bytes[0] > 0


def test_discovery_needs_no_torch() -> None:
    code = "import sys; from emplace.hardware.discover import discover_host; discover_host(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["False"]


def test_every_figure_says_where_it_is_from() -> None:
    host = describe(MACHINE, [])
    assert set(host.sources) == {
        "node.ddr_capacity",
        "node.ddr_reserve",
        "node.intra_node_link",
        "node.network",
        "node.devices.cpu.count",
        "node.devices.cpu.memory_bandwidth",
        "node.devices.cpu.fp32_flops",
    }
    assert host.sources["node.devices.cpu.memory_bandwidth"].startswith("assumed")
    assert host.node.network == 25e9 / 8


@pytest.mark.parametrize(
    ("name", "terabytes_per_s"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35),
        ("NVIDIA A100-SXM4-40GB", 1.555),
        ("NVIDIA A100 80GB PCIe", 1.935),
        ("NVIDIA A10G", 0.6),
        ("NVIDIA B200", 8.0),
        ("NVIDIA GB200", 8.0),
        ("NVIDIA H200 NVL", 4.8),
        ("Tesla V100-SXM3-32GB", 0.9),
        ("NVIDIA A10", 0.6),
        ("NVIDIA L4", 0.3),
        ("NVIDIA L40S", 0.864),
        ("NVIDIA L40", 0.864),
        ("Tesla T4", 0.32),
        ("NVIDIA A1000", None),
        ("NVIDIA T400", None),
        ("NVIDIA L400", None),
    ],
)
def test_a_datasheet_is_of_a_whole_name(name: str, terabytes_per_s: float | None) -> None:
    sheet = Gpu(name, 16 * GIB, None, None).datasheet
    assert (None if sheet is None else sheet.memory_bandwidth / 1e12) == terabytes_per_s


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("v100-32g", "Tesla V100-SXM2-32GB"),
        ("a100-40g", "NVIDIA A100-SXM4-40GB"),
        ("a100-80g", "NVIDIA A100-SXM4-80GB"),
        ("l4-24g", "NVIDIA L4"),
        ("h100-80g", "NVIDIA H100 80GB HBM3"),
        ("h200-141g", "NVIDIA H200"),
        ("b200-180g", "NVIDIA B200"),
    ],
)
def test_a_gpu_has_the_rates_here_that_it_has_by_name(kind: str, name: str) -> None:
    """All precisions: without those of matrix units dense layers would be priced several times too long."""
    here = describe(MACHINE, parse_gpus(f"{name}, 15000, 300, 5, 16\n" * 2))
    named = HostSpec.model_validate({"schema_version": 1, "name": "mine", "node": f"2 x {kind}, 100Gbit/s"})
    (device,), (like,) = here.node.devices, named.node.devices
    for rate in ("memory_bandwidth", "fp32_flops", "tf32_flops", "fp16_flops", "fp8_flops"):
        assert getattr(device, rate) == getattr(like, rate), rate
        assert getattr(device, rate) is None or f"node.devices.{device.kind}.{rate}" in here.sources
    if figures := device_figures()[kind].get("nvlink"):
        assert here.node.intra_node_link == named.node.intra_node_link == parse_rate(figures)


def test_without_nvlink_bytes_pass_system_memory() -> None:
    host = describe(MACHINE, parse_gpus("NVIDIA L4, 23034, 72.00, 4, 16\n" * 8))
    assert host.node.intra_node_link == pytest.approx(16 * 1.969e9 / 2)
    assert host.sources["node.intra_node_link"].startswith("assumed: half of PCIe")


def test_a_gpu_whose_memory_nobody_knows_is_said() -> None:
    with pytest.raises(ToolError, match="how much memory NVIDIA GB10 has"):
        parse_gpus("NVIDIA GB10, [N/A], [N/A], 5, 16\n")


def test_gpus_are_the_devices_where_there_are_any() -> None:
    host = describe(MACHINE, parse_gpus(TWO_H100))
    (device,) = host.node.devices
    assert (device.kind, device.type, device.count) == ("NVIDIA-H100-80GB-HBM3", DeviceType.CUDA, 2)
    assert device.hbm_capacity == 81559 * 2**20
    assert device.memory_bandwidth == 3.35e12
    assert device.system_link == pytest.approx(16 * 3.938e9)
    assert host.sources["node.devices.NVIDIA-H100-80GB-HBM3.memory_bandwidth"] == "NVIDIA datasheet"
    assert len(build_topology(host, None, None, with_servers=False).trainers) == 2


def test_an_unknown_gpu_is_assumed_and_says_so() -> None:
    host = describe(MACHINE, parse_gpus("Future GPU, 1000, [N/A], [N/A], [N/A]\n"))
    assert host.node.devices[0].power_w is None
    assert host.sources["node.devices.Future-GPU.memory_bandwidth"] == "assumed"
    assert host.sources["node.devices.Future-GPU.system_link"].startswith("assumed")


def test_the_fingerprint_is_the_hardware() -> None:
    gpu, other = Gpu("A", GIB, None, None), Gpu("B", GIB, None, None)
    same = fingerprint(MACHINE, [gpu, other])
    assert fingerprint(MACHINE, [other, gpu]) == same
    assert fingerprint(MACHINE, [gpu]) != same
    assert fingerprint(MACHINE, []) != same
