"""What Linux says of a machine, shown to the readers as files under another root."""

from __future__ import annotations

from pathlib import Path

import pytest

from emplace.hardware.discover import describe
from emplace.hardware.machine import available_memory_bytes, cores_here, read_machine, usable_cores, usable_memory_bytes

GIB = 2**30


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


@pytest.mark.parametrize(
    ("cgroup", "folder", "limit", "used", "stat"),
    [
        ("0::/job\n", "sys/fs/cgroup/job", "memory.max", "memory.current", f"anon 1\ninactive_file {GIB}\n"),
        (
            "4:memory:/job\n0::/\n",
            "sys/fs/cgroup/memory/job",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            f"inactive_file 5\ntotal_inactive_file {GIB}\n",
        ),
    ],
)
def test_memory_that_the_cgroup_has_taken_is_not_available(root: Path, cgroup: str, folder: str, limit: str, used: str, stat: str) -> None:
    assert available_memory_bytes(root) == 32 * GIB
    write(root, "proc/self/cgroup", cgroup)
    write(root, f"{folder}/{limit}", str(16 * GIB))
    assert available_memory_bytes(root) == 16 * GIB
    write(root, f"{folder}/{used}", str(10 * GIB))
    write(root, f"{folder}/memory.stat", stat)
    assert available_memory_bytes(root) == 7 * GIB
    assert usable_memory_bytes(root) == 16 * GIB
    write(root, f"{folder}/{used}", str(20 * GIB))
    assert available_memory_bytes(root) == 0


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


def test_cores_here_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {5})
    assert cores_here() == 1


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
