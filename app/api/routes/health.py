"""Whether the service is up and can work, and how much it has done."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse
from sqlalchemy.orm import Session

from emplace.app.database.migrate import refuse_newer
from emplace.app.database.workers import WorkerObserver
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import ask_later
from emplace.placement.errors import ToolError

router = APIRouter(tags=["health"])
metrics_router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(service: TheService) -> dict[str, Any]:
    """The database answers, and so many workers are alive. 503 where it does not or is a newer version's, or none is."""
    try:
        alive = await service.probe(_count_alive, service.workers)
    except ToolError:
        detail = "the database belongs to a newer Emplace, which migrated it while this service ran: update the service"
        raise ask_later(HTTPStatus.SERVICE_UNAVAILABLE, detail) from None
    if not alive:
        raise ask_later(HTTPStatus.SERVICE_UNAVAILABLE, "no worker is alive: what is asked is stored and waits for one")
    return {"status": "ok", "workers": alive}


def _count_alive(session: Session, workers: WorkerObserver) -> int:
    """Raises ToolError where the tables are those of a newer version."""
    refuse_newer(session.connection())
    return len(workers.alive(session))


@metrics_router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: TheService, accept: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
    """For Prometheus, in its text format or in OpenMetrics."""
    text, media_type = await service.scrape(service.metrics.text, service.workers, accept)
    return Response(text, media_type=media_type)
