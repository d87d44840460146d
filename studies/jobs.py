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

    @staticmethod
    def of(host: HostSpec, wanted: Wanted) -> ServerPrices:
        """Each counts once, or with its watts or its price, which are there."""
        if wanted is Wanted.SERVERS:
            return ServerPrices(1.0, 1.0)
        key, remote = NEEDS[wanted], host.remote_servers
        return ServerPrices(getattr(host.node, key), 0.0 if remote is None else getattr(remote, key))

    def of_job(self, nodes: int, servers: int) -> float:
        return nodes * self.node + servers * self.server
