"""The application: routes, errors, and what starts and stops with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import Depends, FastAPI

from emplace.app.api.body import BodyLimit
from emplace.app.api.head import HeadAsGet
from emplace.app.api.openapi import described
from emplace.app.api.parameters import refuse_unknown_parameters
from emplace.app.api.routes import api_page, catalog, checks, health, overview, pipelines, plans, profiles, runs, studies
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
from emplace.app.web.packed import Packed
from emplace.app.web.protected import ProtectiveHeaders, SameOrigin
from emplace.app.web.service import Service

_WORTH_PACKING_BYTES = 2048


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
        openapi_url=None,  # the framework's own writes it anew for each request, and its pages load their scripts from elsewhere
    )
    app.state.closing = lambda: False
    problems.install(app, error_page)
    for resource in (plans, runs, checks, profiles, pipelines, studies, overview, catalog):
        app.include_router(resource.router, dependencies=[Depends(let_in), Depends(refuse_unknown_parameters)])
    for shown in (health.metrics_router, pages.router):
        app.include_router(shown, dependencies=[Depends(let_in)])
    for open_to_all in (health.router, login.router, api_page.router):
        app.include_router(open_to_all)
    app.mount("/static", static_files())
    for middleware, options in reversed(_around(settings, names, metrics)):  # the last that is added is the outermost
        app.add_middleware(middleware, **options)
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    return app


def _around(settings: Settings, names: Iterable[str], metrics: Metrics) -> list[tuple[Any, dict[str, Any]]]:
    """What every request passes, from the outside in."""
    return [
        (ProtectiveHeaders, {}),
        (Identified, {}),
        (SameOrigin, {"names": names, "proxied": settings.allowed_hosts.split(",")}),
        (TimedRequests, {"metrics": metrics}),
        (HeadAsGet, {}),
        (BodyLimit, {"max_pause_s": settings.request_timeout_seconds}),
        (Packed, {"minimum_size": _WORTH_PACKING_BYTES, "compresslevel": 1}),
    ]
