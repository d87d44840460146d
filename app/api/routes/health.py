"""Whether the service is up and can work, and how much it has done."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from emplace.app.database.jobs import KINDS
from emplace.app.database.states import State
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import ask_later
from emplace.app.web.service import Service

router = APIRouter(tags=["health"])
metrics_router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(service: TheService) -> dict[str, Any]:
    """The database answers, and so many workers are alive. 503 where it does not, or none is."""
    alive = len(await service.probe(service.workers.alive))
    if not alive:
        raise ask_later(HTTPStatus.SERVICE_UNAVAILABLE, "no worker is alive: what is asked is stored and waits for one")
    return {"status": "ok", "workers": alive}


@metrics_router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: TheService, accept: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
    """Counts for Prometheus, in its text format or in OpenMetrics."""
    registry = await service.probe(_counts, service)
    encode, media_type = choose_encoder(accept)
    return Response(encode(registry), media_type=media_type)


def _counts(session: Session, service: Service) -> CollectorRegistry:
    registry = CollectorRegistry()
    resources = Gauge("emplace_resources", "Stored resources by kind and state.", ["kind", "state"], registry=registry)
    for kind in KINDS:
        counts: dict[str, int] = {row[0]: row[1] for row in session.execute(select(kind.state, func.count()).group_by(kind.state))}
        for state in State:
            resources.labels(kind.__tablename__, state).set(counts.get(state, 0))
    Gauge("emplace_workers", "Workers that are alive.", registry=registry).set(len(service.workers.alive(session)))
    return registry
