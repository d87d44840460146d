"""Which machines have a worker, and why a run is refused on the others."""

from __future__ import annotations

import logging
from http import HTTPStatus

from sqlalchemy.orm import Session

from emplace.app.web.problems import Refused
from emplace.app.web.service import Service
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.reading import read_text

_log = logging.getLogger(__name__)


def hosts_at_work(service: Service, session: Session) -> dict[str, HostSpec]:
    """The host of every live worker, by fingerprint. One of another version, whose host can't be read here, is left out and logged."""
    found = {}
    for row in service.workers.alive(session):
        if row.host_fingerprint is not None:
            try:
                found[row.host_fingerprint] = read_text(row.host, HostSpec, source=f"host of worker {row.id}", as_json=True)
            except InvalidDocument as error:
                _log.warning("a worker of another version is left out: %s", error)
    return found


def host_for(service: Service, session: Session, host: HostSpec, nodes: int | None, *, emulate: bool) -> str:
    """The fingerprint of the worker's host that a plan for `host` runs on; any that has a worker will do to emulate it.

    Raises Refused with what is needed and what is there.
    """
    available = hosts_at_work(service, session)
    if host.fingerprint in available:
        return str(host.fingerprint)
    if emulate and available:
        return min(available)
    there = "; ".join(_devices(host, 1) for host in available.values()) or "no worker"
    needed = f"the plan is for {host.name} ({_devices(host, nodes or host.nodes)})"
    why = "which is no machine that was discovered" if host.fingerprint is None else "and no worker runs on that machine"
    hint = '; "emulate": true runs it on CPU ranks, scaled down' if available else ""
    raise Refused(HTTPStatus.CONFLICT, f"{needed}, {why}; here there is {there}{hint}")


def _devices(host: HostSpec, nodes: int) -> str:
    parts = []
    for device in host.node.devices:
        count = nodes * device.count
        kind = "CUDA device" if device.type is DeviceType.CUDA else "CPU core"
        parts.append(f"{count} {kind}{'s' if count > 1 else ''} ({device.kind})")
    return ", ".join(parts)
