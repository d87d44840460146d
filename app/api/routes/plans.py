"""POST and GET /v1/plans, and what is done with one plan."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session
from starlette.requests import ClientDisconnect

from emplace.app.api import examples
from emplace.app.api.body import Body
from emplace.app.api.conditional import Conditions, again, conditions_of, document, tag_of, unchanged
from emplace.app.api.events import LastEventId, events_of
from emplace.app.api.idempotency import IdempotencyKey, once
from emplace.app.api.new_plans import Answer, AskedPlan, asked_plan, find_or_store, find_or_store_one
from emplace.app.api.questions import QUESTION_KEYS, read_question
from emplace.app.api.requests import PlanKeys, PlanRequest, body_of
from emplace.app.api.resources import PlanPage, PlanResource, plan_resource, plan_summary
from emplace.app.api.routes import jobs as job_routes
from emplace.app.database import paging, plans, runs
from emplace.app.database.jobs import Ticket
from emplace.app.database.keys import AccessScope
from emplace.app.database.priorities import Priority
from emplace.app.database.states import State
from emplace.app.database.stored import read_stored
from emplace.app.database.tables import PlanRow, RunRow
from emplace.app.web.access import needs
from emplace.app.web.dependencies import Cursor, Limit, TheService
from emplace.app.web.problems import Refused, found
from emplace.app.web.service import Service
from emplace.executor.export import to_torchrec
from emplace.placement.errors import EmplaceError
from emplace.placement.plan import Plan, PlanStatus
from emplace.placement.reading import from_data

router = APIRouter(prefix="/v1/plans", tags=["plans"])

MAX_WAIT_SECONDS = 600
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "The client has it already (If-None-Match)."}}
_POLL_SECONDS = 0.1
_WAIT = re.compile(r'"(?:[^"\\]|\\.)*"|(?:^|[,;\s])wait="?([0-9]{1,9})\b', re.IGNORECASE)
"""The preference, or a text in quotes, which may hold anything."""


@router.post(
    "",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=body_of(PlanRequest, examples.plans()),
    responses={200: {"model": PlanResource, "description": "An equal question is already answered, or was within the wait."}},
)
async def create_plan(
    body: Body,
    service: TheService,
    request: Request,
    response: Response,
    idempotency_key: IdempotencyKey = None,
    prefer: Annotated[str | None, Header(description="`wait=N`: answer after up to N seconds, as soon as the plan is there")] = None,
) -> PlanResource:
    """Ask for a plan. Equal questions share one plan."""
    keys = from_data({key: body[key] for key in PlanKeys.model_fields if key in body}, PlanKeys, source="body")
    asked = await service.read(_asked, service, body, keys.priority)
    if idempotency_key is None:
        answer = await service.write_together(find_or_store, asked)
    else:
        answer = await service.write(_once, service, asked, body, idempotency_key)
    plan_id, wait_s = answer.row.id, _wait_of(prefer)
    if wait_s is not None:
        response.headers["Preference-Applied"] = f"wait={wait_s}"
        resource = await _wait_for(service, request, plan_id, wait_s)
    elif answer.is_new:
        resource = plan_resource(answer.row, None)  # all of it is known
    else:
        resource = await service.read_together(_resource, plan_id)
    response.headers["Location"] = f"/v1/plans/{plan_id}"
    response.status_code = HTTPStatus.OK if resource.state.is_final else HTTPStatus.ACCEPTED
    return resource


@router.get("", response_model=PlanPage)
async def list_plans(
    service: TheService,
    model: str | None = None,
    host: str | None = None,
    status: PlanStatus | None = None,
    state: State | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Stored plans, newest first."""
    filters = ("model_name", model), ("host_name", host), ("status", status), ("state", state)
    return again(await service.read_together(_page, filters, cursor, limit))


@router.get("/{plan_id}", response_model=PlanResource, responses=UNCHANGED)
async def get_plan(plan_id: str, service: TheService, request: Request) -> Response:
    """One plan. Its ETag changes with its state and with each new measurement."""
    return again(await service.read_together(_answer, conditions_of(request), plan_id))


@router.post("/{plan_id}/cancel")
async def cancel_plan(plan_id: str, service: TheService) -> PlanResource:
    """End the search. What runs of it ends within seconds."""
    return await service.write(_cancel, plan_id)


@router.delete("/{plan_id}", status_code=HTTPStatus.NO_CONTENT, dependencies=[Depends(needs(AccessScope.ADMIN))])
async def delete_plan(plan_id: str, service: TheService) -> None:
    """Remove a plan and its runs; what is still at work on them ends."""
    await service.delete(_delete, plan_id)


@router.get("/{plan_id}/events", response_class=EventSourceResponse, dependencies=[Depends(get_plan)])
async def plan_events(plan_id: str, service: TheService, last_event_id: LastEventId = None) -> AsyncIterator[ServerSentEvent]:
    """Progress as server-sent events: `progress` with incumbent, bound, gap and elapsed seconds; `end` with the final state."""
    async for event in events_of(service, PlanRow, plan_id, last_event_id):
        yield event


@router.get("/{plan_id}/export", response_model=dict[str, Any], responses=UNCHANGED)
async def export_plan(
    plan_id: str, service: TheService, request: Request, format: Annotated[Literal["torchrec", "json"], Query()] = "json"
) -> Response:
    """The plan document, or the plan as TorchRec reads it."""
    return again(await service.read_together(_export, conditions_of(request), plan_id, format))


def finished_plan(row: PlanRow) -> Plan:
    """The plan document of a row. Raises Refused when there is none, OutdatedDocument."""
    if row.document is None:
        raise Refused(HTTPStatus.CONFLICT, f"the plan is {row.state}: there is no document yet")
    return read_stored(row.document, Plan, f"plan {row.id}")


def _asked(session: Session, service: Service, body: dict[str, Any], priority: Priority) -> AskedPlan:
    return asked_plan(read_question(session, service, body, QUESTION_KEYS | PlanKeys.model_fields.keys()), priority)


def _once(session: Session, service: Service, asked: AskedPlan, body: dict[str, Any], idempotency_key: str) -> Answer:
    made: list[Answer] = []

    def make() -> str:
        made.append(find_or_store_one(session, service, asked))
        return made[-1].row.id

    plan_id = once(session, idempotency_key, "plans", body, make)
    if made and made[-1].row.id == plan_id:
        return made[-1]
    return Answer(_find(session, plan_id), is_new=False)  # an earlier request with this key made it


def _page(session: Session, filters: tuple[tuple[str, str | None], ...], cursor: str | None, limit: int) -> Response:
    rows, following = paging.page(session, PlanRow, dict(filters), cursor, limit)
    measured = runs.latest_done(session, [row.id for row in rows])
    page = PlanPage(items=[plan_summary(row, measured.get(row.id)) for row in rows], next=following)
    return Response(page.model_dump_json(), media_type="application/json")


def _cancel(session: Session, plan_id: str) -> PlanResource:
    job_routes.cancel(session, PlanRow, plan_id)
    return _resource(session, plan_id)


def _export(session: Session, conditions: Conditions, plan_id: str, format: str) -> Response:
    row = _find(session, plan_id)
    tag = tag_of("export", format, row.id, row.state, row.ticket)
    if row.state == State.DONE and conditions.knows(tag):
        return unchanged(tag)
    plan = finished_plan(row)
    try:
        return document(conditions, tag, lambda: json.dumps(plan.to_data() if format == "json" else to_torchrec(plan)))
    except EmplaceError as error:
        raise Refused(HTTPStatus.CONFLICT, str(error)) from None


def _answer(session: Session, conditions: Conditions, plan_id: str) -> Response:
    """The resource, its document as it is stored: to read and write a large one anew takes longer than all else. It is not even
    loaded where the client has it."""
    row = _find(session, plan_id)
    run = runs.latest_done(session, [plan_id]).get(plan_id)
    tag = tag_of("plan", row.id, row.state, row.ticket, row.attempts, run.id if run else None)
    if conditions.knows(tag):
        return unchanged(tag)

    def text() -> str:
        summary = plan_summary(row, run).model_dump_json().removesuffix("}")
        return f'{summary},"plan":{row.document or "null"}}}'

    return document(conditions, tag, text)


def _delete(session: Session, plan_id: str) -> list[Ticket]:
    _find(session, plan_id)
    return plans.remove(session, plan_id)


async def _wait_for(service: Service, request: Request, plan_id: str, wait_s: float) -> PlanResource:
    def final(session: Session) -> bool:
        return State(_find(session, plan_id).state).is_final

    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline and not service.closing() and not await service.watch(final):
        if await request.is_disconnected():
            raise ClientDisconnect
        await asyncio.sleep(_POLL_SECONDS)
    return await service.read(_resource, plan_id)


def _wait_of(prefer: str | None) -> int | None:
    """Seconds of `wait=N` (RFC 7240) among the preferences; what else is preferred is ignored, as the RFC says."""
    found = next((each[1] for each in _WAIT.finditer(prefer or "") if each[1]), None)
    return None if found is None else min(int(found), MAX_WAIT_SECONDS)


def _resource(session: Session, plan_id: str) -> PlanResource:
    row = _find(session, plan_id, with_document=True)
    latest: dict[str, RunRow] = runs.latest_done(session, [plan_id])
    return plan_resource(row, latest.get(plan_id))


def _find(session: Session, plan_id: str, *, with_document: bool = False) -> PlanRow:
    return found(plans.find(session, plan_id, with_document=with_document), "plan", plan_id)
