"""Sizes of jobs, what they cost, and what is known of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from emplace.placement.document import Document
from emplace.placement.host import HostSpec


class Wanted(StrEnum):
    """What the best job has least of."""

    SERVERS = "servers"
    POWER = "power"
    COST = "cost"


NEEDS = {Wanted.POWER: "power_w", Wanted.COST: "price_per_hour"}
"""The keys of a host document that it follows from."""


class NodesAndServers(Document):
    """Nodes of trainers, and servers that hold tables for them."""

    nodes: int
    parameter_servers: int = 0


class LeastCount(Document):
    """What asks for so many of one kind of server."""

    by: str
    least: int


class Sized(Document):
    """How many of one kind of server, and why not fewer."""

    count: int
    binds: str
    bounds: tuple[LeastCount, ...] = ()
    """The fewest that each thing asks for, taken alone."""


@dataclass(frozen=True)
class ServerPrices:
    """What a server of each kind weighs in the choice."""

    node: float
    server: float
    dense_servers: float = 0.0
    """All those of the host together, which a synchronous job has besides."""

    @staticmethod
    def of(host: HostSpec, wanted: Wanted) -> ServerPrices:
        """Each counts once, or with its watts or its price, which are there."""
        if wanted is Wanted.SERVERS:
            return ServerPrices(1.0, 1.0, 0 if host.dense_servers is None else host.dense_servers.count)
        key, remote, dense = NEEDS[wanted], host.remote_servers, host.dense_servers
        of_dense = 0.0 if dense is None else dense.count * getattr(dense, key)
        return ServerPrices(getattr(host.node, key), 0.0 if remote is None else getattr(remote, key), of_dense)

    def of_job(self, nodes: int, servers: int) -> float:
        return nodes * self.node + servers * self.server
