"""The models and hosts that a question can name, and those of stored plans."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy import func, select

from emplace.app.api.hosts_at_work import hosts_at_work
from emplace.app.api.resources import Page
from emplace.app.database.tables import PlanRow
from emplace.app.web.dependencies import MAX_PAGE, Cursor, Limit, Reading, TheService
from emplace.app.web.problems import Refused, not_found
from emplace.placement.catalog import LOCAL_HOST, builtin_host, builtin_model, host_names, model_names
from emplace.placement.errors import BrokenRule

router = APIRouter(prefix="/v1", tags=["catalog"])


class CatalogEntry(BaseModel):
    """`source` is built-in, discovered (a machine) or stored (the document of a plan, found by digest)."""

    name: str
    digest: str
    source: str
    description: str | None = None
    plans: int = 0


class Catalog(Page):
    items: list[CatalogEntry]


@router.get("/models")
def list_models(session: Reading, cursor: Cursor = None, limit: Limit = MAX_PAGE) -> Catalog:
    """Built-in models, then other models that plans are stored for."""
    stored = _stored(session, PlanRow.model_name, PlanRow.model_digest)
    models = [builtin_model(name) for name in model_names()]
    entries = [(model.name, model.content_digest(), "built-in", model.description) for model in models]
    return _page(_catalog(entries, stored), cursor, limit)


@router.get("/models/{name}")
def get_model(name: str) -> dict[str, Any]:
    """A built-in model as a document that can be changed and sent back."""
    if name not in model_names():
        raise not_found("model", name)
    return builtin_model(name).to_data()


@router.get("/hosts")
def list_hosts(session: Reading, service: TheService, cursor: Cursor = None, limit: Limit = MAX_PAGE) -> Catalog:
    """Built-in hosts, this machine and those of the workers, then other hosts that plans are stored for."""
    hosts = [(builtin_host(name), "built-in") for name in host_names()]
    machines = {service.local_host.content_digest(): service.local_host}
    machines |= {host.content_digest(): host for host in hosts_at_work(session).values()}
    hosts += [(host, "discovered") for host in machines.values()]
    entries = [(host.name, host.content_digest(), source, host.description) for host, source in hosts]
    return _page(_catalog(entries, _stored(session, PlanRow.host_name, PlanRow.host_digest)), cursor, limit)


@router.get("/hosts/{name}")
def get_host(name: str, service: TheService) -> dict[str, Any]:
    """A built-in host, or `local`, as a document that can be changed and sent back."""
    if name == LOCAL_HOST:
        return service.local_host.to_data()
    if name not in host_names():
        raise not_found("host", name)
    return builtin_host(name).to_data()


def _stored(session: Reading, name: Any, digest: Any) -> dict[str, tuple[str, int]]:
    """Name and number of plans by digest."""
    rows = session.execute(select(digest, func.min(name), func.count()).group_by(digest).order_by(func.min(name), digest))
    return {row[0]: (row[1], row[2]) for row in rows}


def _catalog(known: list[tuple[str, str, str, str | None]], stored: dict[str, tuple[str, int]]) -> list[CatalogEntry]:
    entries = [
        CatalogEntry(name=name, digest=digest, source=source, description=description, plans=stored.pop(digest, ("", 0))[1])
        for name, digest, source, description in known
    ]
    entries += [CatalogEntry(name=name, digest=digest, source="stored", plans=plans) for digest, (name, plans) in stored.items()]
    return entries


def _page(entries: list[CatalogEntry], cursor: str | None, limit: int) -> Catalog:
    """The entries after the one that the cursor names. Raises Refused when that one is there no more."""
    cursors = [entry.digest.removeprefix("sha256:")[:32] for entry in entries]
    if cursor is not None and cursor not in cursors:
        broken = BrokenRule("/cursor", cursor, "must be `next` of the page before; that page has changed, start at the first one")
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(broken), [broken], "query")
    start = 0 if cursor is None else cursors.index(cursor) + 1
    end = start + limit
    return Catalog(items=entries[start:end], next=cursors[end - 1] if end < len(entries) else None)
