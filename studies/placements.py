"""The four places for embedding tables that Acun et al. (HPCA 2021) compare, each on a host with the stage that limits it."""

from __future__ import annotations

from enum import StrEnum

from emplace.placement.host import HostSpec
from emplace.placement.model import Tier
from emplace.placement.plan import PlanOptions
from emplace.placement.topology import host_tiers


class Place(StrEnum):
    DEVICE_MEMORY = "device memory"
    SYSTEM_MEMORY = "system memory"
    REMOTE_SERVERS = "remote servers"
    MIXED = "both memories"


TIERS = {
    Place.DEVICE_MEMORY: (Tier.HBM,),
    Place.SYSTEM_MEMORY: (Tier.DDR,),
    Place.REMOTE_SERVERS: (Tier.REMOTE,),
    Place.MIXED: (Tier.HBM, Tier.DDR),
}


def places_of(host: HostSpec, options: PlanOptions) -> list[Place]:
    """Those that the host has and the options allow."""
    there = set(host_tiers(host))
    return [place for place, tiers in TIERS.items() if there.issuperset(tiers) and all(map(options.allows, tiers))]
