"""Runs of a plan: train under it on a worker whose host matches, and verify."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session, undefer

from emplace.app.api import examples
from emplace.app.api.body import read_mapping
from emplace.app.api.events import LastEventId, events_of
from emplace.app.api.hosts_at_work import host_for
from emplace.app.api.idempotency import IdempotencyKey, once
from emplace.app.api.queueing import put_new
from emplace.app.api.requests import RunRequest, body_of
from emplace.app.api.resources import RunPage, RunResource, run_resource
from emplace.app.api.routes import jobs as job_routes
from emplace.app.api.routes.plans import finished_plan
from emplace.app.database import paging, plans, runs
from emplace.app.database.keys import AccessScope
from emplace.app.database.tables import RunRow
from emplace.app.web.access import needs
from emplace.app.web.dependencies import Cursor, Limit, TheService
from emplace.app.web.problems import Refused, found, not_found
from emplace.app.web.service import Service
from emplace.placement.reading import from_data

router = APIRouter(prefix="/v1", tags=["runs"])


@router.post(
    "/plans/{plan_id}/runs",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=body_of(RunRequest, examples.runs(), required=False),
    dependencies=[Depends(needs(AccessScope.RUN))],
)
async def create_run(
    plan_id: str, request: Request, service: TheService, response: Response, idempotency_key: IdempotencyKey = None
) -> RunResource:
    """Execute a plan, or emulate it. Refused (409) when no worker runs on the plan's host; an emulation takes any."""
    body = await read_mapping(request) if await request.body() else {}
    resource = await service.write(_create, service, plan_id, body, idempotency_key)
    response.headers["Location"] = f"/v1/runs/{resource.id}"
    return resource


@router.get("/plans/{plan_id}/runs")
async def list_runs(plan_id: str, service: TheService, cursor: Cursor = None, limit: Limit = 50) -> RunPage:
    """A plan's runs, newest first."""
    return await service.read(_page, plan_id, cursor, limit)


@router.get("/runs/{run_id}")
async def get_run(run_id: str, service: TheService) -> RunResource:
    return await service.read(_resource, run_id)


@router.post("/runs/{run_id}/cancel", dependencies=[Depends(needs(AccessScope.RUN))])
async def cancel_run(run_id: str, service: TheService) -> RunResource:
    """End the run; its processes end within seconds."""
    return await service.write(_cancel, run_id)


@router.get("/runs/{run_id}/events", response_class=EventSourceResponse, dependencies=[Depends(get_run)])
async def run_events(run_id: str, service: TheService, last_event_id: LastEventId = None) -> AsyncIterator[ServerSentEvent]:
    """Progress as server-sent events: `progress` with a message; `end` with the final state."""
    async for event in events_of(service, RunRow, run_id, last_event_id):
        yield event


def _create(session: Session, service: Service, plan_id: str, body: dict[str, Any], idempotency_key: str | None) -> RunResource:
    wanted = from_data(body, RunRequest, source="body")
    row = found(plans.find(session, plan_id, with_document=True), "plan", plan_id)
    plan = finished_plan(row)
    if not plan.has_placement:
        raise Refused(HTTPStatus.CONFLICT, f"the plan is {plan.status}: there is no placement to run")

    def make() -> str:
        fingerprint = host_for(service, session, plan.question.host, plan.sized_question.options.nodes, emulate=wanted.emulate)
        run = RunRow(plan_id=plan_id, host_fingerprint=fingerprint, steps=wanted.steps, seed=wanted.seed, emulate=wanted.emulate)
        put_new(service, session, run)
        return run.id

    return _resource(session, once(session, idempotency_key, f"plans/{plan_id}/runs", body, make))


def _page(session: Session, plan_id: str, cursor: str | None, limit: int) -> RunPage:
    if plans.find(session, plan_id) is None:
        raise not_found("plan", plan_id)
    rows, following = paging.page(session, RunRow, {"plan_id": plan_id}, cursor, limit, undefer(RunRow.document))
    return RunPage(items=[run_resource(row) for row in rows], next=following)


def _cancel(session: Session, run_id: str) -> RunResource:
    job_routes.cancel(session, RunRow, run_id)
    return _resource(session, run_id)


def _resource(session: Session, run_id: str) -> RunResource:
    return run_resource(found(runs.find(session, run_id), "run", run_id))
