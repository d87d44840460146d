"""A host as a drawing shows it: a node with its devices and memory, the links inside it, and what it is joined to."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.host import HostSpec
from emplace.placement.units import format_rate, format_size


@dataclass(frozen=True)
class DeviceBox:
    kind: str
    memory: str
    bandwidth: str


@dataclass(frozen=True)
class HostChart:
    """`devices` are those of one node. Rates are of each device, of the network of each node."""

    name: str
    nodes: int
    devices: tuple[DeviceBox, ...]
    device_link: str
    system_link: str | None
    system_memory: str
    network: str
    servers: str | None


def host_chart(host: HostSpec) -> HostChart:
    devices = tuple(
        DeviceBox(
            kind=device.kind,
            memory="system memory" if device.hbm_capacity is None else format_size(device.hbm_capacity),
            bandwidth=format_rate(device.memory_bandwidth),
        )
        for device in host.node.devices
        for _ in range(device.count)
    )
    links = {format_rate(device.system_link) for device in host.node.devices if device.system_link is not None}
    remote = host.remote_servers
    servers = (
        None if remote is None else f"{remote.count} {remote.kind}, {format_size(remote.ddr_capacity)} each, {format_rate(remote.network)}"
    )
    return HostChart(
        name=host.name,
        nodes=host.nodes,
        devices=devices,
        device_link=format_rate(host.node.intra_node_link),
        system_link=" or ".join(sorted(links)) or None,
        system_memory=format_size(host.node.ddr_capacity),
        network=format_rate(host.node.network),
        servers=servers,
    )
