"""Whether the service is up and can work, and how much it has done."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import choose_encoder

from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import ask_later

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
    """For Prometheus, in its text format or in OpenMetrics."""
    registry = await service.probe(service.metrics.look, service.workers)
    encode, media_type = choose_encoder(accept)
    return Response(encode(registry), media_type=media_type)
