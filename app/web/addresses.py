"""Addresses of the network."""

from __future__ import annotations

import ipaddress


def is_address(text: str) -> bool:
    """Whether it is an address and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches it, or is reached from there. A name is none: it may lead anywhere."""
    if not is_address(address):
        return False
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback
