"""This machine as a HostSpec named `local`: the same document, digest included, every time it is asked.

Capacities and counts are read from the machine. Rates are not measured here (that is what profiling is for): they are
datasheet figures of known parts, or assumed, and `sources` says which.
"""

from __future__ import annotations

import hashlib
import json

from emplace.hardware.gpus import Gpu, read_gpus
from emplace.hardware.machine import Machine, read_machine
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.model import Precision
from emplace.placement.node_shorthand import STAGED_LINK
from emplace.placement.units import format_flops, format_rate, format_size

CPU_KIND = "cpu"

_RESERVE_SHARE = 0.1
_MIN_RESERVE_BYTES = 2**30
_HBM_RESERVE_BYTES = 2 * 2**30
_CORE_BANDWIDTH = 10e9
_SOCKET_BANDWIDTH = 200e9
_GLOO_LINK = 2e9
_NETWORK = 10e9 / 8
_CLOCK_HZ = 2.5e9
_GPU_BANDWIDTH, _GPU_FLOPS, _PCIE = 900e9, 14e12, 16e9
"""Assumed rates, in bytes and flop per second: what is taken where the machine does not say."""

_READ = "read from the operating system"
_DRIVER = "read from the NVIDIA driver"


def discover_host() -> HostSpec:
    """This machine as a host. Raises ToolError when an NVIDIA driver is installed but does not answer."""
    return describe(read_machine(), read_gpus())


def describe(machine: Machine, gpus: list[Gpu]) -> HostSpec:
    """The HostSpec of a machine: its GPUs are the devices where it has any, else each usable core is one."""
    sources = {
        "node.ddr_capacity": f"{_READ}: the machine's memory, or this process's cgroup limit where lower",
        "node.ddr_reserve": f"assumed: {_RESERVE_SHARE:.0%} of the memory, at least 1 GiB, for the system and other processes",
    }
    devices = _gpu_devices(gpus, sources) if gpus else [_cpu_device(machine, sources)]
    reserve = min(max(int(machine.memory_bytes * _RESERVE_SHARE), _MIN_RESERVE_BYTES), machine.memory_bytes // 2) // 2**20 * 2**20
    node = {
        "devices": devices,
        "ddr_capacity": format_size(machine.memory_bytes),
        "ddr_reserve": format_size(reserve),
        "intra_node_link": format_rate(_link(gpus, sources)),
        "network": format_rate(_network(machine, sources)),
    }
    return HostSpec.model_validate(
        {
            "schema_version": 1,
            "name": "local",
            "description": _description(machine, gpus),
            "node": node,
            "fingerprint": fingerprint(machine, gpus),
            "sources": sources,
        }
    )


def fingerprint(machine: Machine, gpus: list[Gpu]) -> str:
    """A digest that is the same for equal hardware under equal limits: CPU model, usable cores, memory to the GiB, GPUs. No host name."""
    facts = [machine.cpu_model, machine.cores, round(machine.memory_bytes / 2**30), sorted(gpu.name for gpu in gpus)]
    return "sha256:" + hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _cpu_device(machine: Machine, sources: dict[str, str]) -> dict[str, object]:
    """One device per usable core: a rank is a process with its share of the cores."""
    clock = machine.clock_hz or _CLOCK_HZ
    flop_per_cycle = _flop_per_cycle(machine.cpu_flags)
    bandwidth = min(_CORE_BANDWIDTH, machine.sockets * _SOCKET_BANDWIDTH / machine.cores)
    sources["node.devices.cpu.count"] = f"{_READ}: cores that this process may use (affinity and CPU quota)"
    sources["node.devices.cpu.memory_bandwidth"] = "assumed: 10 GB/s a core, at most 200 GB/s a socket"
    sources["node.devices.cpu.fp32_flops"] = f"derived: {clock / 1e9:g} GHz x {flop_per_cycle} flop a cycle of one core" + (
        "" if machine.clock_hz else " (clock assumed)"
    )
    return {
        "kind": CPU_KIND,
        "type": DeviceType.CPU,
        "count": machine.cores,
        "memory_bandwidth": format_rate(bandwidth),
        "fp32_flops": format_flops(round(clock * flop_per_cycle, -6)),
    }


def _flop_per_cycle(flags: frozenset[str]) -> int:
    """fp32 flop of a core in a cycle: two fused multiply-add units of its widest vectors; without FMA one add and one multiply."""
    if "avx512f" in flags:
        return 64
    if "fma" in flags:
        return 32
    return 16 if {"asimd", "avx"} & flags else 8


def _gpu_devices(gpus: list[Gpu], sources: dict[str, str]) -> list[dict[str, object]]:
    kinds: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        kinds.setdefault(gpu.kind, []).append(gpu)
    return [_gpu_device(kind, equal, sources) for kind, equal in kinds.items()]


def _gpu_device(kind: str, equal: list[Gpu], sources: dict[str, str]) -> dict[str, object]:
    gpu, where = equal[0], f"node.devices.{kind}"
    sheet = gpu.datasheet
    flops = sheet.flops if sheet else {Precision.FP32: _GPU_FLOPS}
    sources[f"{where}.count"] = sources[f"{where}.hbm_capacity"] = _DRIVER
    sources[f"{where}.hbm_reserve"] = "assumed: 2 GiB for the CUDA context, NCCL and the allocator"
    for rate in ("memory_bandwidth", *(f"{precision}_flops" for precision in flops)):
        sources[f"{where}.{rate}"] = "NVIDIA datasheet" if sheet else "assumed"
    sources[f"{where}.system_link"] = f"{_DRIVER}: PCIe generation and width" if gpu.pcie_bytes_per_s else "assumed: 16 GB/s"
    device: dict[str, object] = {
        "kind": kind,
        "type": DeviceType.CUDA,
        "count": len(equal),
        "hbm_capacity": format_size(gpu.memory_bytes),
        "hbm_reserve": format_size(min(_HBM_RESERVE_BYTES, gpu.memory_bytes // 2)),
        "memory_bandwidth": format_rate(sheet.memory_bandwidth if sheet else _GPU_BANDWIDTH),
        "system_link": format_rate(gpu.pcie_bytes_per_s or _PCIE),
    }
    device |= {f"{precision}_flops": format_flops(rate) for precision, rate in flops.items()}
    return device | ({"power_w": gpu.power_w} if gpu.power_w else {})


def _link(gpus: list[Gpu], sources: dict[str, str]) -> float:
    """Bytes per second between two devices of this machine."""
    if not gpus:
        sources["node.intra_node_link"] = "assumed: 2 GB/s between processes of one machine (gloo over loopback)"
        return _GLOO_LINK
    sheets = [gpu.datasheet for gpu in gpus]
    links = [sheet.nvlink_gb_s * 1e9 for sheet in sheets if sheet is not None and sheet.nvlink_gb_s is not None]
    if len(links) == len(gpus) > 1:
        sources["node.intra_node_link"] = "NVIDIA datasheet: NVLink, one direction, assumed to join all GPUs of this machine"
        return min(links)
    sources["node.intra_node_link"] = STAGED_LINK
    return min(gpu.pcie_bytes_per_s or _PCIE for gpu in gpus) / 2


def _network(machine: Machine, sources: dict[str, str]) -> float:
    """Bytes per second of this machine's network."""
    if machine.network_bits_per_s is None:
        sources["node.network"] = "assumed: 10 Gbit/s, no interface states its speed"
        return _NETWORK
    sources["node.network"] = f"{_READ}: the fastest interface"
    return machine.network_bits_per_s / 8


def _description(machine: Machine, gpus: list[Gpu]) -> str:
    caches = ", ".join(f"{level} {size // 1024} KiB" for level, size in machine.caches.items())
    parts = [
        machine.cpu_model,
        f"{machine.cores} usable cores",
        f"{machine.sockets} socket(s)",
        f"{machine.numa_nodes} NUMA node(s)",
        caches,
    ]
    names = sorted({gpu.name for gpu in gpus})
    parts += [f"{sum(gpu.name == name for gpu in gpus)} x {name}" for name in names]
    return "This machine: " + ", ".join(part for part in parts if part)
