"""From a host and a number of ranks to the ranks themselves: who sits where, with how much memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HOST_CPUS, MAX_RANKS, DeviceKind, DeviceType, HostSpec
from emplace.placement.model import Tier
from emplace.placement.reserve import reserve_bytes
from emplace.placement.units import format_size

SERVED = frozenset({Tier.CPU, Tier.REMOTE})
"""Tiers whose tables are looked up by ranks that train nothing: a node's own CPUs beside its devices, or remote servers."""


@dataclass(frozen=True)
class Rank:
    """One process of a training job. `hbm_capacity_bytes` is what tables and buffers may use, the reserve taken off."""

    rank: int
    node: int
    device: str
    type: DeviceType
    hbm_capacity_bytes: int
    serves: Tier | None = None
    """The tier of the tables that it holds for trainers; None of a trainer."""

    @property
    def is_server(self) -> bool:
        return self.serves is not None


@dataclass(frozen=True)
class Topology:
    """The ranks of a job, trainers first, then servers of one kind: the CPUs of the trainers' node, or remote servers, a node each.

    `node_ddr_capacity_bytes[n]` is node n's system memory less its reserve.
    """

    ranks: tuple[Rank, ...]
    node_ddr_capacity_bytes: tuple[int, ...]
    trainer_nodes: int

    @cached_property
    def trainers(self) -> tuple[Rank, ...]:
        return tuple(rank for rank in self.ranks if not rank.is_server)

    @cached_property
    def servers(self) -> tuple[Rank, ...]:
        return tuple(rank for rank in self.ranks if rank.is_server)

    @property
    def served_tier(self) -> Tier | None:
        """Where the servers' tables are."""
        return self.servers[0].serves if self.servers else None

    @property
    def remote_servers(self) -> int:
        """How many of the servers are machines of their own."""
        return len(self.node_ddr_capacity_bytes) - self.trainer_nodes

    @property
    def trainers_per_node(self) -> int:
        return len(self.trainers) // self.trainer_nodes


def build_topology(
    host: HostSpec,
    nodes: int | None,
    ranks: int | None,
    *,
    with_servers: bool,
    cpu_lookups: bool = False,
    hbm_reserve: str | None = None,
    ddr_reserve: str | None = None,
) -> Topology:
    """The job of `ranks` trainers (by default one for each device) spread evenly over `nodes` nodes (by default the host's).

    Servers are the remote ones, or with `cpu_lookups` the node's own CPUs.

    `hbm_reserve` of each CUDA device and `ddr_reserve` of each node and server stay free, beside what the host reserves.
    Raises InvalidDocument when the ranks don't divide over the nodes, a CUDA node has fewer devices than ranks, a
    reserve leaves nothing, or nothing is known of CPUs that are to look up.
    """
    nodes = host.nodes if nodes is None else nodes
    ranks = nodes * host.devices_per_node if ranks is None else ranks
    _refuse_bad_counts(host, nodes, ranks)
    if cpu_lookups:
        _refuse_cpu_lookups(host, nodes)
    trainers = tuple(
        Rank(
            rank=node * (ranks // nodes) + index,
            node=node,
            device=device.kind,
            type=device.type,
            hbm_capacity_bytes=_left("hbm", device.kind, device.hbm_capacity or 0, device.hbm_reserve or 0, hbm_reserve),
        )
        for node in range(nodes)
        for index, device in enumerate(_devices_in_turn(host, ranks // nodes))
    )
    node_ddr = [_left("ddr", "a node", host.node.ddr_capacity, host.node.ddr_reserve, ddr_reserve)] * nodes
    servers: tuple[Rank, ...] = ()
    if with_servers and cpu_lookups:
        servers = (Rank(ranks, 0, HOST_CPUS, DeviceType.CPU, 0, Tier.CPU),)
    elif with_servers and host.remote_servers is not None:
        remote = host.remote_servers
        servers = tuple(Rank(ranks + index, nodes + index, remote.kind, DeviceType.CPU, 0, Tier.REMOTE) for index in range(remote.count))
        node_ddr += [_left("ddr", remote.kind, remote.ddr_capacity, remote.ddr_reserve, ddr_reserve)] * remote.count
    return Topology(trainers + servers, tuple(node_ddr), nodes)


def _left(memory: str, whose: str, capacity_bytes: int, host_reserve_bytes: int, reserve: str | None) -> int:
    """Bytes of a memory that tables and buffers may use, both reserves taken off. Raises InvalidDocument where nothing is left."""
    left = capacity_bytes - host_reserve_bytes
    if not capacity_bytes or reserve is None:
        return left
    if reserve_bytes(reserve, capacity_bytes) >= left:
        rule = f"must leave something of the {format_size(left)} that {whose} has beside the host's own reserve"
        raise InvalidDocument("options", [BrokenRule(f"/{memory}_reserve", reserve, rule)])
    return left - reserve_bytes(reserve, capacity_bytes)


def host_tiers(host: HostSpec) -> tuple[Tier, ...]:
    """The tiers that this host has at all."""
    there = {Tier.HBM: host.has_cuda, Tier.DDR: True, Tier.CPU: host.has_cpu_lookups, Tier.REMOTE: host.remote_servers is not None}
    return tuple(tier for tier in Tier if there[tier])


def is_asked_for(tier: Tier, asked: tuple[Tier, ...] | None) -> bool:
    """Whether tables may live there, if the host has it; where nothing is asked, in all but `cpu`, which TorchRec can't run beside
    CUDA devices."""
    return tier is not Tier.CPU if asked is None else tier in asked


def allowed_tiers(host: HostSpec, asked: tuple[Tier, ...] | None) -> tuple[Tier, ...]:
    """Those of the host's that are asked for."""
    return tuple(tier for tier in host_tiers(host) if is_asked_for(tier, asked))


def _refuse_cpu_lookups(host: HostSpec, nodes: int) -> None:
    rule = None
    if not host.has_cuda:
        rule = f"the trainers of {host.name} are CPUs, whose tables are in the tier ddr: leave out cpu"
    elif not host.has_cpu_lookups:
        rule = f"needs the cores and the ddr_bandwidth of {host.name}'s node, which its host document does not give"
    elif nodes > 1:
        rule = f"CPU lookups are planned on one node, here are {nodes}: ask for one (nodes: 1), or for remote servers"
    if rule is not None:
        raise InvalidDocument("options", [BrokenRule("/tiers", str(Tier.CPU), rule)])


def _devices_in_turn(host: HostSpec, count: int) -> Iterator[DeviceKind]:
    """The first `count` devices of a node; a CPU node takes as many ranks as asked."""
    devices = [device for device in host.node.devices for _ in range(device.count)]
    return (devices[min(index, len(devices) - 1)] for index in range(count))


def _refuse_bad_counts(host: HostSpec, nodes: int, ranks: int) -> None:
    rule = None
    if nodes < 1 or ranks < 1:
        rule = "nodes and ranks must be at least 1"
    elif ranks > MAX_RANKS:
        rule = f"must be at most {MAX_RANKS}; the default is all {nodes * host.devices_per_node} devices of {nodes} node(s) of {host.name}"
    elif ranks % nodes:
        rule = f"the number of ranks must be a multiple of the number of nodes ({nodes})"
    elif ranks > nodes * host.devices_per_node and host.has_cuda:
        rule = f"{nodes} node(s) of {host.name} have {nodes * host.devices_per_node} devices, one rank each"
    if rule is not None:
        raise InvalidDocument("options", [BrokenRule("/ranks", str(ranks), rule)])
