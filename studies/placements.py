"""The places for embedding tables that Acun et al. (HPCA 2021) compare, each on a host with the stage that limits it.

System memory is two: read by devices over their links, and looked up by the node's CPUs.
"""

from __future__ import annotations

from enum import StrEnum

from emplace.placement.host import HostSpec
from emplace.placement.model import Tier
from emplace.placement.plan import PlanOptions
from emplace.placement.topology import allowed_tiers, host_tiers


class Place(StrEnum):
    DEVICE_MEMORY = "device memory"
    SYSTEM_MEMORY = "system memory"
    CPU_LOOKUPS = "system memory, CPUs look up"
    REMOTE_SERVERS = "remote servers"
    MIXED = "both memories"
    MIXED_CPU = "both memories, CPUs look up"


TIERS = {
    Place.DEVICE_MEMORY: (Tier.HBM,),
    Place.SYSTEM_MEMORY: (Tier.DDR,),
    Place.CPU_LOOKUPS: (Tier.CPU,),
    Place.REMOTE_SERVERS: (Tier.REMOTE,),
    Place.MIXED: (Tier.HBM, Tier.DDR),
    Place.MIXED_CPU: (Tier.HBM, Tier.CPU),
}


def places_of(host: HostSpec, options: PlanOptions) -> list[Place]:
    """Those that the host has and the options allow; CPU lookups on one node alone."""
    there = set(host_tiers(host) if options.tiers is None else allowed_tiers(host, options.tiers))
    if (options.nodes or host.nodes) > 1:
        there.discard(Tier.CPU)
    return [place for place, tiers in TIERS.items() if there.issuperset(tiers)]
