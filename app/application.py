"""The application: routes, errors, and what starts and stops with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import Depends, FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.openapi.utils import get_openapi

from emplace.app.api.body import BodyLimit
from emplace.app.api.head import HeadAsGet
from emplace.app.api.parameters import refuse_unknown_parameters
from emplace.app.api.requests import STUDIES, CheckRequest, PipelineRequest, PlanRequest, ProfileRequest, RunRequest
from emplace.app.api.routes import catalog, checks, health, pipelines, plans, profiles, runs, studies
from emplace.app.dashboard import login, pages
from emplace.app.dashboard.rendering import error_page, static_files
from emplace.app.database.connection import Database
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.supervisor import WorkerSupervisor
from emplace.app.jobs.warm import WarmProcess
from emplace.app.settings import Settings
from emplace.app.web import problems
from emplace.app.web.access import KnownKeys, let_in
from emplace.app.web.identified import Identified
from emplace.app.web.metrics import Metrics, TimedRequests
from emplace.app.web.protected import ProtectiveHeaders, SameOrigin
from emplace.app.web.service import Service

_WORTH_PACKING_BYTES = 2048
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {key: {"type": "string"} for key in ("in", "pointer", "detail", "value")},
            },
        },
    },
}


def create_app(
    settings: Settings,
    database: Database,
    warm: WarmProcess,
    *,
    with_worker: bool,
    names: Iterable[str] = (),
    asks_for_keys: bool = False,
) -> FastAPI:
    """The service on a migrated database; `with_worker` runs a worker process beside it. `names`: more hosts that it goes by.

    `warm` solves the checks; who made it starts and stops it.
    """

    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        queue = JobQueue(database)
        app.state.service = Service(settings, database, queue, warm, app.state.closing, metrics)
        app.state.keys = KnownKeys(app.state.service) if asks_for_keys else None
        supervisor = WorkerSupervisor() if with_worker else None
        if supervisor is not None:
            supervisor.start()
        try:
            yield
        finally:
            if supervisor is not None:
                await to_thread.run_sync(supervisor.stop)
            queue.close()

    app = FastAPI(
        title="Emplace",
        version="1",
        description="Decides where the embedding tables of a recommendation model live. Errors are RFC 9457 problem documents.",
        lifespan=lifespan,
        docs_url=None,  # the frameworks' own pages load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.closing = lambda: False
    problems.install(app, error_page)
    for resource in (plans, runs, checks, profiles, pipelines, studies, catalog):
        app.include_router(resource.router, dependencies=[Depends(let_in), Depends(refuse_unknown_parameters)])
    for shown in (health.metrics_router, pages.router):
        app.include_router(shown, dependencies=[Depends(let_in)])
    for open_to_all in (health.router, login.router):
        app.include_router(open_to_all)
    app.mount("/static", static_files())
    for middleware, options in reversed(_around(settings, names, metrics)):  # the last that is added is the outermost
        app.add_middleware(middleware, **options)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _around(settings: Settings, names: Iterable[str], metrics: Metrics) -> list[tuple[Any, dict[str, Any]]]:
    """What every request passes, from the outside in."""
    return [
        (ProtectiveHeaders, {}),
        (Identified, {}),
        (SameOrigin, {"names": [*names, *filter(None, settings.allowed_hosts.split(","))]}),
        (TimedRequests, {"metrics": metrics}),
        (HeadAsGet, {}),
        (BodyLimit, {"max_pause_s": settings.request_timeout_seconds}),
        (GZipMiddleware, {"minimum_size": _WORTH_PACKING_BYTES, "compresslevel": 1}),
    ]


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's page, with the bodies that routes read by themselves and the one shape of errors."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        for kind in (PlanRequest, CheckRequest, RunRequest, ProfileRequest, PipelineRequest, *STUDIES):
            own = kind.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= {**own.pop("$defs", {}), kind.__name__: own}
        schemas["Problem"] = _PROBLEM_SCHEMA
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{}, {"key": []}]  # a service on the loopback address asks for none
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        answer = {"description": "Any error", "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = answer
        app.openapi_schema = schema
    return app.openapi_schema
