"""A TorchRec Topology as a host document, and what a StorageReservation leaves of it."""

from __future__ import annotations

import copy
from typing import Any

from torchrec.distributed.planner.types import Topology

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.memory import rank_bytes
from emplace.placement.model import ModelSpec
from emplace.placement.reading import from_data
from emplace.placement.topology import build_topology
from emplace.placement.units import format_flops, format_rate, format_size
from emplace.placement.workload import Objective, model_loads

_MS_PER_S = 1000
_ASSUMED_FLOPS = {"cuda": 15.7e12, "cpu": 1e12}
"""A topology has none. V100 like TorchRec's constants, and a share of a server's CPU."""
_MOST_RESERVED_BYTES = {"hbm": 2 * 2**30, "ddr": 16 * 2**30}
_RESERVED_SHARE = 16
"""Without a reservation a sixteenth of each memory stays free, and no more than the above."""


class NothingLeft(InvalidDocument):
    """A reservation that leaves no memory to tables."""


def check_topology(topology: Topology) -> None:
    """Raises InvalidDocument for a topology that Emplace can't plan for."""
    broken = []
    if topology.compute_device not in tuple(DeviceType):
        broken.append(BrokenRule("/compute_device", topology.compute_device, "must be cuda or cpu"))
    if topology.world_size % topology.local_world_size:
        rule = f"must be a multiple of local_world_size ({topology.local_world_size}): every node has as many ranks"
        broken.append(BrokenRule("/world_size", str(topology.world_size), rule))
    if len({(device.storage.hbm, device.storage.ddr) for device in topology.devices}) > 1:
        broken.append(BrokenRule("/custom_topology_data", "", "must give every rank as much memory: Emplace plans for equal nodes"))
    if broken:
        raise InvalidDocument("topology", broken)


def host_of(topology: Topology, *, is_reserved: bool) -> HostSpec:
    """The host that a topology's figures are of, TorchRec's constants among them. `is_reserved` says that a StorageReservation was given.

    TorchRec gives bytes a millisecond, and one network port to each rank. Raises InvalidDocument.
    """
    on_cuda = topology.compute_device == DeviceType.CUDA
    per_node, storage = topology.local_world_size, topology.devices[0].storage
    device: dict[str, Any] = {
        "kind": topology.compute_device,
        "type": topology.compute_device,
        "count": per_node,
        "memory_bandwidth": _rate(topology.hbm_mem_bw if on_cuda else topology.ddr_mem_bw),
        "fp32_flops": format_flops(_ASSUMED_FLOPS[topology.compute_device]),
    }
    if on_cuda:
        device["hbm_capacity"] = format_size(storage.hbm)
        device["hbm_reserve"] = format_size(0 if is_reserved else _reserve("hbm", storage.hbm))
        device["system_link"] = _rate(topology.hbm_to_ddr_mem_bw)
    data = {
        "schema_version": 1,
        "name": f"torchrec-topology-{topology.compute_device}",
        "nodes": topology.world_size // per_node,
        "node": {
            "devices": [device],
            "ddr_capacity": format_size(storage.ddr * per_node),
            "ddr_reserve": format_size(0 if is_reserved else _reserve("ddr", storage.ddr * per_node)),
            "intra_node_link": _rate(topology.intra_host_bw),
            "network": _rate(topology.inter_host_bw * per_node),
        },
        "sources": {
            "node": "torchrec.distributed.planner.types.Topology, where it was not given TorchRec's constants; network: one port a rank",
            f"node.devices.{topology.compute_device}.fp32_flops": "assumed: a topology has none",
            "reserves": "of the StorageReservation" if is_reserved else "assumed: a sixteenth, at most 2GiB of HBM and 16GiB of DDR",
        },
    }
    return from_data(data, HostSpec, source="topology")


def with_memory_of(topology: Topology, host: HostSpec) -> Topology:
    """The topology with the memories of a host that was named. Raises InvalidDocument where the ranks don't fit it."""
    kinds = {device.type for device in host.node.devices}
    if kinds != {DeviceType(topology.compute_device)}:
        rule = f"must have devices of the topology's type, {topology.compute_device}, and of no other"
        raise InvalidDocument("host", [BrokenRule("/node/devices", ", ".join(sorted(kinds)), rule)])
    ranks = build_topology(host, topology.world_size // topology.local_world_size, topology.world_size, with_servers=False)
    changed = copy.deepcopy(topology)
    for device, rank in zip(changed.devices, ranks.trainers, strict=True):
        device.storage.hbm = next(kind.hbm_capacity or 0 for kind in host.node.devices if kind.kind == rank.device)
        device.storage.ddr = host.node.ddr_capacity // topology.local_world_size
    return changed


def reserve_options(topology: Topology, reserved: Topology, host: HostSpec, model: ModelSpec) -> dict[str, str]:
    """The reserves, as options of a plan, that keep what a StorageReservation took of a topology.

    A reservation is for what is not sharded, of which Emplace counts the dense part, ids and vectors of a rank by itself. So the larger
    of both stays free, not their sum. Raises NothingLeft.
    """
    ranks = build_topology(host, topology.world_size // topology.local_world_size, topology.world_size, with_servers=False)
    on_cuda = topology.compute_device == DeviceType.CUDA
    counted = rank_bytes(model, model_loads(model, ranks, Objective.MEAN), is_server=False, on_cuda=on_cuda)
    options = {}
    per_node = topology.local_world_size
    for memory, ranks_of_it, counted_bytes in (("hbm", 1, counted if on_cuda else 0), ("ddr", per_node, 0 if on_cuda else counted)):
        before = min(getattr(device.storage, memory) for device in topology.devices)
        after = min(getattr(device.storage, memory) for device in reserved.devices)
        if before > 0 and after <= 0:
            rule = f"keeps all of the {format_size(before)} that a rank has: keep less, or take a smaller batch"
            raise NothingLeft("storage_reservation", [BrokenRule(f"/{memory}", format_size(before - after), rule)])
        if (extra := (before - after - counted_bytes) * ranks_of_it) > 0:
            options[f"{memory}_reserve"] = format_size(extra)
    return options


def job_options(topology: Topology) -> dict[str, int]:
    """Nodes and ranks, as options of a plan."""
    return {"nodes": topology.world_size // topology.local_world_size, "ranks": topology.world_size}


def _rate(bytes_per_ms: float) -> str:
    return format_rate(bytes_per_ms * _MS_PER_S)


def _reserve(memory: str, capacity_bytes: int) -> int:
    return min(_MOST_RESERVED_BYTES[memory], capacity_bytes // _RESERVED_SHARE)
