"""HostSpec: the machines a model trains on, as a datasheet states them.

A host is one or more equal nodes, each with devices of one or more kinds, system memory and links, and perhaps remote
servers that hold tables for it. One rank drives one device; on a CPU host a rank is a process on a share of the node.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from emplace.placement.document import Document, broken_rule
from emplace.placement.model import Name
from emplace.placement.node_shorthand import EXAMPLE, spelled_out
from emplace.placement.units import Flops, Rate, ReservedSize, Size, format_size

MAX_RANKS = 16_384
"""The most trainers of a job; also the most devices of a kind in a node, the most nodes, and the most remote servers."""
Count = Annotated[int, Field(strict=True, gt=0, le=MAX_RANKS)]


HOST_CPUS = "host-cpus"
"""The kind of device that the CPUs of a node with CUDA devices are, where they look up."""


class DeviceType(StrEnum):
    CUDA = "cuda"
    CPU = "cpu"


def _memory_by_type(schema: dict[str, Any]) -> None:
    """In the schema, too: which keys a device of each type has."""
    given, absent = {"type": "string"}, {"type": "null"}
    cuda = {"type": {"const": DeviceType.CUDA}} | dict.fromkeys(_CUDA_NEEDS, given)
    cpu = {"type": {"const": DeviceType.CPU}} | dict.fromkeys(OF_CUDA, absent)
    schema["anyOf"] = [{"properties": cuda, "required": list(_CUDA_NEEDS)}, {"properties": cpu}]


_CUDA_NEEDS = ("hbm_capacity", "system_link")
OF_CUDA = (*_CUDA_NEEDS, "hbm_reserve", "devices_per_link")
"""Keys that a CPU device does not have."""


class DeviceKind(Document):
    """`count` equal devices of a node.

    A CUDA device has its own memory (HBM) and a link to the node's system memory; a CPU device has neither, its
    tables live in system memory, and `memory_bandwidth` is then this device's share of it.
    """

    model_config = ConfigDict(json_schema_extra=_memory_by_type)

    kind: Name
    type: DeviceType
    count: Count
    hbm_capacity: Size | None = None
    hbm_reserve: ReservedSize | None = None
    memory_bandwidth: Rate
    system_link: Rate | None = None
    devices_per_link: Count | None = None
    """How many devices share one such link, behind a switch; absent where each has its own."""
    fp32_flops: Flops
    tf32_flops: Flops | None = None
    """The rate of its matrix units at TF32; absent where they have none."""
    fp16_flops: Flops | None = None
    """The rate of its matrix units at FP16, and at BF16 where they have that."""
    fp8_flops: Flops | None = None
    """The rate of its matrix units at FP8; absent where they have none."""
    power_w: Annotated[float, Field(strict=True, gt=0)] | None = None

    @model_validator(mode="after")
    def _memory_fits_type(self) -> DeviceKind:
        if self.type is DeviceType.CUDA and (missing := [key for key in _CUDA_NEEDS if getattr(self, key) is None]):
            raise ValueError(f"a cuda device needs {' and '.join(missing)}")
        if self.type is DeviceType.CPU and (extra := [key for key in OF_CUDA if getattr(self, key) is not None]):
            raise ValueError(f"a cpu device has no {' and no '.join(extra)}: its tables live in the node's ddr_capacity")
        if self.hbm_capacity is not None and self.hbm_reserve is not None:
            _refuse_full_reserve("hbm", self.hbm_reserve, self.hbm_capacity)
        return self


class Node(Document):
    """One machine."""

    devices: Annotated[tuple[DeviceKind, ...], Field(min_length=1)]
    ddr_capacity: Size
    ddr_reserve: ReservedSize
    intra_node_link: Rate
    """Bytes per second of each device, to the other devices of its node."""
    intra_node_hops: Annotated[float, Field(strict=True, ge=1, le=100)] | None = None
    """How many such links a byte between two devices crosses, on average over all pairs; absent where each reaches all others directly."""
    network: Rate
    """Bytes per second of each node, to other nodes and remote servers."""
    cores: Count | None = None
    """Cores of all CPUs of the node; absent where nothing is to be said of what they decode."""
    ddr_bandwidth: Rate | None = None
    """Bytes per second of all system memory; absent where links to it are always slower."""
    power_w: Annotated[float, Field(strict=True, gt=0)] | None = None
    idle_power_w: Annotated[float, Field(strict=True, ge=0)] | None = None
    price_per_hour: Annotated[float, Field(strict=True, ge=0)] | None = None
    """What one node costs, in whatever money."""

    @model_validator(mode="after")
    def _kinds_are_unique(self) -> Node:
        kinds = [device.kind for device in self.devices]
        if len(set(kinds)) != len(kinds):
            raise broken_rule("/devices", kinds, "must list each kind of device once, with its count")
        _refuse_full_reserve("ddr", self.ddr_reserve, self.ddr_capacity)
        _refuse_more_when_idle(self)
        return self


class RemoteServers(Document):
    """CPU servers whose system memory holds tables for the host (sparse parameter servers)."""

    count: Count
    kind: Name
    ddr_capacity: Size
    ddr_reserve: ReservedSize
    memory_bandwidth: Rate
    network: Rate
    cores: Count | None = None
    """Cores of all CPUs of a server; absent where nothing is to be said of what its messages and lookups take of them."""
    fp32_flops: Flops
    power_w: Annotated[float, Field(strict=True, gt=0)] | None = None
    idle_power_w: Annotated[float, Field(strict=True, ge=0)] | None = None
    price_per_hour: Annotated[float, Field(strict=True, ge=0)] | None = None

    @model_validator(mode="after")
    def _reserve_leaves_room(self) -> RemoteServers:
        _refuse_full_reserve("ddr", self.ddr_reserve, self.ddr_capacity)
        _refuse_more_when_idle(self)
        return self


class DenseServers(Document):
    """CPU servers with which trainers exchange dense parameters, instead of reducing gradients among each other."""

    count: Count
    every: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    """Steps between two exchanges. At every step gradients go there and parameters come back; else trainers take their own steps and
    average parameters (elastic averaging)."""
    memory_bandwidth: Rate
    network: Rate
    cores: Count | None = None
    """As of remote servers."""
    power_w: Annotated[float, Field(strict=True, gt=0)] | None = None
    price_per_hour: Annotated[float, Field(strict=True, ge=0)] | None = None


def _or_one_line(schema: dict[str, Any]) -> None:
    """The schema of a node that may be a line."""
    at_length = {"$ref": schema.pop("$ref")}
    schema["anyOf"] = [at_length, {"type": "string", "examples": [EXAMPLE]}]


class HostSpec(Document):
    """Equal nodes and what links them. `sources` says where each figure comes from."""

    schema_version: Literal[1]
    name: Name
    description: str | None = None
    nodes: Count = 1
    node: Annotated[Node, Field(json_schema_extra=_or_one_line)]
    """Also in one line, such as `8 x h100-80g, NVLink, 3200Gbit/s, 2TiB` (placement/node_shorthand.py)."""
    remote_servers: RemoteServers | None = None
    dense_servers: DenseServers | None = None
    """Absent where trainers all-reduce gradients."""
    fingerprint: str | None = None
    """Identifies the physical machine of a discovered host; a measured cost model carries the same."""
    sources: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_its_node_at_length(cls, data: Any) -> Any:
        return spelled_out(data)

    @property
    def devices_per_node(self) -> int:
        return sum(device.count for device in self.node.devices)

    @property
    def num_devices(self) -> int:
        """Devices of all nodes; a job has a rank for each of them by default."""
        return self.nodes * self.devices_per_node

    @property
    def has_cuda(self) -> bool:
        return any(device.type is DeviceType.CUDA for device in self.node.devices)

    @property
    def has_cpu_lookups(self) -> bool:
        """Whether the CPUs beside its CUDA devices can be priced where they look up."""
        return self.has_cuda and self.node.cores is not None and self.node.ddr_bandwidth is not None

    @model_validator(mode="after")
    def _servers_are_a_kind_of_their_own(self) -> HostSpec:
        if HOST_CPUS in (device.kind for device in self.node.devices):
            raise broken_rule("/node/devices", HOST_CPUS, "is what the CPUs of a node are called; give the device another kind")
        if self.remote_servers is not None and self.remote_servers.kind == HOST_CPUS:
            raise broken_rule("/remote_servers/kind", HOST_CPUS, "is what the CPUs of a node are called; give the servers another kind")
        if self.dense_servers is not None and self.fingerprint is not None:
            rule = "are for hosts from datasheets: on this machine TorchRec trains, which all-reduces gradients; leave them out"
            raise broken_rule("/dense_servers", "", rule)
        if self.remote_servers is not None and self.remote_servers.kind in (device.kind for device in self.node.devices):
            raise broken_rule("/remote_servers/kind", self.remote_servers.kind, "must differ from the kinds of the node's devices")
        return self


def _refuse_more_when_idle(part: Node | RemoteServers) -> None:
    if part.power_w is not None and part.idle_power_w is not None and part.idle_power_w > part.power_w:
        raise broken_rule("/idle_power_w", part.idle_power_w, f"must be at most power_w, {part.power_w:g}")


def _refuse_full_reserve(memory: str, reserve_bytes: int, capacity_bytes: int) -> None:
    if reserve_bytes >= capacity_bytes:
        raise broken_rule(
            f"/{memory}_reserve", format_size(reserve_bytes), f"must be less than {memory}_capacity, {format_size(capacity_bytes)}"
        )
