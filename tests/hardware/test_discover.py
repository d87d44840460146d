"""The host `local`: what is read from the machine, what is assumed, and that it never changes by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from emplace.hardware.discover import describe, discover_host, fingerprint
from emplace.hardware.gpus import Gpu, parse_gpus
from emplace.hardware.machine import Machine, read_machine, usable_cores, usable_memory_bytes
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.reading import read_text
from emplace.placement.topology import build_topology

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


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with 64 GiB and no cgroup."""
    write(tmp_path, "proc/meminfo", f"MemTotal:       {64 * 2**20} kB\nMemAvailable:   {32 * 2**20} kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(
        tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx2 fma\nbogomips\t: 5192.24\n\nprocessor\t: 1\n"
    )
    return tmp_path


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


def test_memory_without_a_limit_is_the_machines(root: Path) -> None:
    assert usable_memory_bytes(root) == 64 * GIB


def test_memory_is_limited_by_any_cgroup_above_v2(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/system/job\n")
    write(root, "sys/fs/cgroup/system/memory.max", str(8 * GIB))
    write(root, "sys/fs/cgroup/system/job/memory.max", "max\n")
    assert usable_memory_bytes(root) == 8 * GIB


def test_memory_is_limited_by_the_cgroup_v1(root: Path) -> None:
    write(root, "proc/self/cgroup", "4:memory:/job\n3:cpuset:/\n0::/\n")
    write(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", str(16 * GIB))
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    assert usable_memory_bytes(root) == 16 * GIB


def test_another_boot_with_some_pages_less_is_the_same_memory(root: Path) -> None:
    before = usable_memory_bytes(root)
    write(root, "proc/meminfo", f"MemTotal:       {64 * 2**20 + 5000} kB\n")
    assert usable_memory_bytes(root) == before


@pytest.mark.parametrize(
    ("affinity", "quota", "cores"),
    [(8, None, 8), (8, "max 100000", 8), (8, "350000 100000", 3), (2, "800000 100000", 2), (4, "50000 100000", 1)],
)
def test_cores_are_affinity_and_quota_v2(root: Path, affinity: int, quota: str | None, cores: int) -> None:
    if quota is not None:
        write(root, "sys/fs/cgroup/cpu.max", quota)
    assert usable_cores(affinity, root) == cores


def test_cores_are_limited_by_the_quota_v1(root: Path) -> None:
    write(root, "proc/self/cgroup", "5:cpu,cpuacct:/job\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000")
    assert usable_cores(16, root) == 2
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1")
    assert usable_cores(16, root) == 16


def test_an_interface_that_states_no_speed_is_assumed(root: Path) -> None:
    (root / "sys/class/net/eth0/device").mkdir(parents=True)
    write(root, "sys/class/net/eth0/speed", "-1\n")
    machine = read_machine(root)
    assert machine.network_bits_per_s is None
    assert machine.clock_hz == 2.6e9
    assert describe(machine, []).sources["node.network"].startswith("assumed")


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
