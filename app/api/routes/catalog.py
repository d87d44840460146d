"""The models and hosts that a question can name, and those of stored plans."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from emplace.app.api.hosts_at_work import hosts_at_work
from emplace.app.api.resources import Page
from emplace.app.database.tables import PlanRow
from emplace.app.web.dependencies import MAX_PAGE, Cursor, Limit, TheService
from emplace.app.web.problems import Refused, not_found
from emplace.app.web.service import Service
from emplace.placement.catalog import builtin_host, builtin_model, host_names, model_names
from emplace.placement.errors import BrokenRule
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec

router = APIRouter(prefix="/v1", tags=["catalog"])


class CatalogEntry(BaseModel):
    """`source` is built-in, discovered (a machine) or stored (the document of a plan).
    `GET /v1/models/{name}` finds it by its digest, and by its name where no other entry before it has that."""

    name: str
    digest: str
    source: str
    description: str | None = None
    plans: int = 0


class Catalog(Page):
    items: list[CatalogEntry]


@router.get("/models")
async def list_models(service: TheService, cursor: Cursor = None, limit: Limit = MAX_PAGE) -> Catalog:
    """Built-in models, then other models that plans are stored for."""
    return await service.read_together(_models, cursor, limit)


@router.get("/models/{name}")
async def get_model(name: str, service: TheService) -> dict[str, Any]:
    """A listed model as a document that can be changed and sent back: a built-in one, else that of the newest plan for the name.
    The digest of a listed one names exactly that one."""
    return await service.read(_model, name)


@router.get("/hosts")
async def list_hosts(service: TheService, cursor: Cursor = None, limit: Limit = MAX_PAGE) -> Catalog:
    """Built-in hosts, this machine and those of the workers, then other hosts that plans are stored for."""
    return await service.read_together(_hosts, service, cursor, limit)


@router.get("/hosts/{name}")
async def get_host(name: str, service: TheService) -> dict[str, Any]:
    """A listed host as a document that can be changed and sent back: a built-in one, `local`, else that of the newest plan for the
    name. The digest of a listed one names exactly that one."""
    return await service.read(_host, service, name)


@dataclass(frozen=True)
class KnownDocument:
    """A document that needs no plan to be known."""

    document: ModelSpec | HostSpec
    source: str

    @cached_property
    def digest(self) -> str:
        return self.document.content_digest()


@cache
def _known_models() -> tuple[KnownDocument, ...]:
    return tuple(KnownDocument(builtin_model(name), "built-in") for name in model_names())


@cache
def _builtin_hosts() -> tuple[KnownDocument, ...]:
    return tuple(KnownDocument(builtin_host(name), "built-in") for name in host_names())


def _known_hosts(session: Session, service: Service) -> list[KnownDocument]:
    machines = [KnownDocument(host, "discovered") for host in (service.local_host, *hosts_at_work(service, session).values())]
    return [*_builtin_hosts(), *{machine.digest: machine for machine in machines}.values()]


def _models(session: Session, cursor: str | None, limit: int) -> Catalog:
    stored = _stored(session, PlanRow.model_name, PlanRow.model_digest)
    return _page(_catalog(_known_models(), stored), cursor, limit)


def _model(session: Session, name: str) -> dict[str, Any]:
    return _named(name, _known_models()) or _of_newest_plan(session, name, "model", PlanRow.model_name, PlanRow.model_digest)


def _hosts(session: Session, service: Service, cursor: str | None, limit: int) -> Catalog:
    stored = _stored(session, PlanRow.host_name, PlanRow.host_digest)
    return _page(_catalog(_known_hosts(session, service), stored), cursor, limit)


def _host(session: Session, service: Service, name: str) -> dict[str, Any]:
    known = _known_hosts(session, service)
    return _named(name, known) or _of_newest_plan(session, name, "host", PlanRow.host_name, PlanRow.host_digest)


def _named(name: str, known: Sequence[KnownDocument]) -> dict[str, Any] | None:
    """The first document that goes by the name or has the digest."""
    return next((each.document.to_data() for each in known if name in (each.document.name, each.digest)), None)


def _of_newest_plan(session: Session, name: str, part: str, by_name: Any, by_digest: Any) -> dict[str, Any]:
    """That part of the newest question in which it goes by the name or has the digest. Raises Refused where there is none."""
    query = select(PlanRow.question).where(or_(by_name == name, by_digest == name)).order_by(PlanRow.id.desc()).limit(1)
    question = session.scalar(query)
    if question is None:
        raise not_found(part, name)
    document: dict[str, Any] = json.loads(question)[part]
    return document


def _stored(session: Session, name: Any, digest: Any) -> dict[str, tuple[str, int]]:
    """Name and number of plans by digest."""
    rows = session.execute(select(digest, func.min(name), func.count()).group_by(digest).order_by(func.min(name), digest))
    return {row[0]: (row[1], row[2]) for row in rows}


def _catalog(known: Sequence[KnownDocument], stored: dict[str, tuple[str, int]]) -> list[CatalogEntry]:
    entries = [
        CatalogEntry(
            name=each.document.name,
            digest=each.digest,
            source=each.source,
            description=each.document.description,
            plans=stored.pop(each.digest, ("", 0))[1],
        )
        for each in known
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
