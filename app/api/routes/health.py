"""Whether the service is up and can work, and how much it has done."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder
from sqlalchemy import func, select

from emplace.app.database import workers
from emplace.app.database.jobs import KINDS
from emplace.app.database.states import State
from emplace.app.web.dependencies import Reading

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(session: Reading) -> dict[str, Any]:
    """The database answers; how many workers there are. 503 otherwise."""
    return {"status": "ok", "workers": len(workers.list_workers(session))}


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(session: Reading, accept: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
    """Counts for Prometheus, in its text format or in OpenMetrics."""
    registry = CollectorRegistry()
    resources = Gauge("emplace_resources", "Stored resources by kind and state.", ["kind", "state"], registry=registry)
    for kind in KINDS:
        counts: dict[str, int] = {row[0]: row[1] for row in session.execute(select(kind.state, func.count()).group_by(kind.state))}
        for state in State:
            resources.labels(kind.__tablename__, state).set(counts.get(state, 0))
    Gauge("emplace_workers", "Workers that are alive.", registry=registry).set(len(workers.list_workers(session)))
    encode, media_type = choose_encoder(accept)
    return Response(encode(registry), media_type=media_type)
