"""What Linux says about this machine: cores this process may use, sockets, caches, memory under its limits, network.

Every reader takes `root`, the directory that stands for `/`, so that tests can show it other machines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
_CPUS = "sys/devices/system/cpu"
_MEMORY_STEP_BYTES = 2**26
"""Memory is rounded down to a multiple of this: the total differs by some pages from one boot to the next."""


@dataclass(frozen=True)
class Machine:
    """The figures are the same from run to run: nothing here is a current load or a free amount."""

    cpu_model: str
    cpu_flags: frozenset[str]
    clock_hz: float | None
    cores: int
    """Cores that this process may use: its affinity and its CPU quota."""
    sockets: int
    numa_nodes: int
    caches: dict[str, int]
    """Bytes of one cache of each level, such as {"L2": 1048576}."""
    memory_bytes: int
    """Memory that this process may use: the machine's, or its cgroup's limit where that is lower."""
    network_bits_per_s: int | None
    """Bits per second of the fastest physical interface that states its speed; None where none does."""


def read_machine(root: Path = ROOT) -> Machine:
    """This machine, from /proc and /sys."""
    cpuinfo = _first_cpu(root)
    cpus = sorted(os.sched_getaffinity(0))
    return Machine(
        cpu_model=cpuinfo.get("model name") or cpuinfo.get("CPU part") or os.uname().machine,
        cpu_flags=frozenset((cpuinfo.get("flags") or cpuinfo.get("Features") or "").split()),
        clock_hz=_clock_hz(root, cpuinfo),
        cores=usable_cores(len(cpus), root),
        sockets=_sockets(root, cpus),
        numa_nodes=len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1,
        caches=_caches(root, cpus[0]),
        memory_bytes=usable_memory_bytes(root),
        network_bits_per_s=_network(root),
    )


def cores_here() -> int:
    """Cores that this process may use."""
    return usable_cores(len(os.sched_getaffinity(0)))


def usable_cores(affinity: int, root: Path = ROOT) -> int:
    """Cores in the affinity mask, or whole cores of the CPU quota where that is lower; at least one."""
    quotas = [float(affinity)]
    for directory in _cgroup_directories(root, "cpu"):
        if len(limit := (_text(directory / "cpu.max") or "").split()) == 2 and limit[0] != "max":
            quotas.append(int(limit[0]) / int(limit[1]))
        quota, period = _number(directory / "cpu.cfs_quota_us"), _number(directory / "cpu.cfs_period_us")
        if quota and period and quota > 0:
            quotas.append(quota / period)
    return max(1, int(min(quotas)))


def usable_memory_bytes(root: Path = ROOT) -> int:
    """Installed memory, or the lowest cgroup limit above this process where that is lower, rounded down to 64 MiB."""
    amounts = [_meminfo_bytes(root, "MemTotal"), *(limit_bytes for _, limit_bytes in _memory_limits(root))]
    return min(amounts) // _MEMORY_STEP_BYTES * _MEMORY_STEP_BYTES


def available_memory_bytes(root: Path = ROOT) -> int:
    """Bytes that can be taken now without swapping, inside the limits. It varies: it is for a measurement to fit in, not for documents."""
    left = (max(0, limit_bytes - _taken_bytes(directory)) for directory, limit_bytes in _memory_limits(root))
    return min(_meminfo_bytes(root, "MemAvailable"), usable_memory_bytes(root), *left)


def _memory_limits(root: Path) -> Iterator[tuple[Path, int]]:
    """The cgroups above this process that limit memory, with their limits in bytes."""
    for directory in _cgroup_directories(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (limit_bytes := _number(directory / name)) is not None:
                yield directory, limit_bytes


def _taken_bytes(directory: Path) -> int:
    """What a cgroup holds and can't give back at once: pages of files that nobody looked at lately don't count."""
    used_bytes = next((used for name in ("memory.current", "memory.usage_in_bytes") if (used := _number(directory / name))), 0)
    inactive = re.findall(r"^(?:total_)?inactive_file (\d+)$", _text(directory / "memory.stat") or "", re.MULTILINE)
    return max(0, used_bytes - max(map(int, inactive), default=0))  # of version 1, the total is of all cgroups below


def _meminfo_bytes(root: Path, key: str) -> int:
    match = re.search(rf"^{key}:\s+(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{root / 'proc/meminfo'} has no {key}")
    return int(match[1]) * 1024


def _cgroup_directories(root: Path, controller: str) -> list[Path]:
    """The cgroups above this process for a controller, versions 1 and 2, innermost first."""
    directories = []
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / (controller if controllers else "")
        inner = base / path.strip("/")
        directories += [inner, *(parent for parent in inner.parents if parent == base or base in parent.parents)]
    return directories


def _first_cpu(root: Path) -> dict[str, str]:
    lines = (root / "proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _clock_hz(root: Path, cpuinfo: dict[str, str]) -> float | None:
    """The highest clock, else half the bogomips (the base clock of an x86), to 100 MHz; the current clock would vary."""
    if (khz := _number(root / _CPUS / "cpu0/cpufreq/cpuinfo_max_freq")) is not None:
        return round(khz / 1e5) * 1e8
    bogomips = cpuinfo.get("bogomips")
    return round(float(bogomips) / 2 / 100) * 1e8 if bogomips else None


def _sockets(root: Path, cpus: list[int]) -> int:
    return len({_text(root / _CPUS / f"cpu{cpu}/topology/physical_package_id") for cpu in cpus})


def _caches(root: Path, cpu: int) -> dict[str, int]:
    """Bytes of the caches of one core, by level."""
    units = {"K": 2**10, "M": 2**20}
    caches = {}
    for index in sorted((root / _CPUS / f"cpu{cpu}/cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KM])", _text(index / "size") or "")
        if size and _text(index / "type") in ("Data", "Unified"):
            caches[f"L{_text(index / 'level')}"] = int(size[1]) * units[size[2]]
    return caches


def _network(root: Path) -> int | None:
    """Bits per second of the fastest physical interface that states its speed; None where none does."""
    interfaces = (path for path in (root / "sys/class/net").glob("*") if (path / "device").exists())
    speeds = [speed for path in interfaces if (speed := _number(path / "speed")) and speed > 0]
    return max(speeds) * 10**6 if speeds else None


def _text(path: Path) -> str | None:
    """What the file says; None where it is absent or can't be read, as an interface that is down refuses to say its speed."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None
