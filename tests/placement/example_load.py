"""A table's load on eight trainers, and what arrives at its shards."""

from __future__ import annotations

from emplace.placement.id_order import RowShare
from emplace.placement.model import ShardingType
from emplace.placement.topology import Topology, build_topology
from emplace.placement.workload import ShardWorkload, TableLoad, shard_workload
from tests.placement.example_models import gpu_host

LOAD = TableLoad(1600.0, 200.0, 900.0, 180.0, 1700, 220, 512, 64, 256, 32, 220)
"""Eight trainers of 64 examples; half of the bags are uneven."""


def topology(*, with_servers: bool = False) -> Topology:
    return build_topology(gpu_host(), None, None, with_servers=with_servers)


def work(kind: ShardingType, share: float = 1.0, columns: int = 16, *, on_server: bool = False) -> ShardWorkload:
    return shard_workload(LOAD, kind, RowShare.even(share), columns, topology(with_servers=on_server), on_server=on_server)
