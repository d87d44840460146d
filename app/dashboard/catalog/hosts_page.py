"""The hosts that a question can name, and one of them, drawn with its links."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from emplace.app.api.routes import catalog
from emplace.app.dashboard.charts.host import HostChart, host_chart
from emplace.app.dashboard.rendering import show
from emplace.app.web.dependencies import MAX_PAGE, TheService
from emplace.placement.host import HostSpec
from emplace.placement.reading import from_data

router = APIRouter()


@dataclass(frozen=True)
class HostPage:
    name: str
    description: str | None
    fingerprint: str | None
    drawing: HostChart
    sources: dict[str, str]


@router.get("/hosts")
async def hosts_page(request: Request, service: TheService, cursor: str | None = None) -> Response:
    """Built-in hosts, the machines of workers, and those of stored plans."""
    found = await catalog.list_hosts(service, cursor, MAX_PAGE)
    return show(request, "catalog.html", {"kind": "hosts", "title": "Hosts", "items": found.items, "next": found.next})


@router.get("/hosts/{name}")
async def host_page(request: Request, name: str, service: TheService) -> Response:
    """One host, by its name or digest."""
    host = from_data(await catalog.get_host(name, service), HostSpec, source=f"host {name}")
    page = HostPage(host.name, host.description, host.fingerprint, host_chart(host), host.sources)
    return show(request, "host.html", page)
