"""POST and GET /v1/studies: sweeps, sizings, rankings and batch sizes that outlive whoever works on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session

from emplace.app.api import examples
from emplace.app.api.body import Body
from emplace.app.api.conditional import Conditions, again, conditions_of, document, tag_of, unchanged
from emplace.app.api.events import LastEventId, events_of
from emplace.app.api.idempotency import IdempotencyKey, once
from emplace.app.api.requests import STUDIES, body_of
from emplace.app.api.resources import StudyPage, StudyResource, study_resource, study_summary
from emplace.app.api.routes import jobs as job_routes
from emplace.app.api.routes.plans import UNCHANGED
from emplace.app.api.studies import points_of, read_study, store_study
from emplace.app.database import paging, studies
from emplace.app.database.jobs import Ticket
from emplace.app.database.keys import AccessScope
from emplace.app.database.states import State
from emplace.app.database.tables import StudyRow
from emplace.app.web.access import needs
from emplace.app.web.dependencies import Cursor, Limit, TheService
from emplace.app.web.problems import found
from emplace.app.web.service import Service
from emplace.studies.asked import Asked, StudyKind

router = APIRouter(prefix="/v1/studies", tags=["studies"])


@router.post("", status_code=HTTPStatus.ACCEPTED, openapi_extra=body_of(STUDIES, examples.studies()))
async def create_study(
    body: Body, service: TheService, request: Request, response: Response, idempotency_key: IdempotencyKey = None
) -> StudyResource:
    """Begin a sweep, a sizing, a ranking of hosts or a look at batch sizes, with the options of the command of that name. What the command
    refuses is refused before anything is stored."""
    asked = await service.read(read_study, service, body)
    points = await points_of(service, request, asked)
    resource = await service.write(_create, service, asked, points, body, idempotency_key)
    response.headers["Location"] = f"/v1/studies/{resource.id}"
    return resource


@router.get("")
async def list_studies(
    service: TheService,
    kind: StudyKind | None = None,
    model: str | None = None,
    state: State | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> StudyPage:
    """Stored studies, newest first."""
    return await service.read(_page, {"kind": kind, "model_name": model, "state": state}, cursor, limit)


@router.get("/{study_id}", response_model=StudyResource, responses=UNCHANGED)
async def get_study(study_id: str, service: TheService, request: Request) -> Response:
    """One study, how many of its points are done, and its answer once all are."""
    return again(await service.read_together(_answer, conditions_of(request), study_id))


@router.post("/{study_id}/cancel")
async def cancel_study(study_id: str, service: TheService) -> StudyResource:
    """End the study. What runs of it ends within seconds."""
    return await service.write(_cancel, study_id)


@router.delete("/{study_id}", status_code=HTTPStatus.NO_CONTENT, dependencies=[Depends(needs(AccessScope.ADMIN))])
async def delete_study(study_id: str, service: TheService) -> None:
    """Remove a study; what is still at work on it ends."""
    await service.delete(_delete, study_id)


@router.get("/{study_id}/events", response_class=EventSourceResponse, dependencies=[Depends(get_study)])
async def study_events(study_id: str, service: TheService, last_event_id: LastEventId = None) -> AsyncIterator[ServerSentEvent]:
    """Progress as server-sent events: `progress` with the points that are done of all; `end` with the final state."""
    async for event in events_of(service, StudyRow, study_id, last_event_id):
        yield event


def _create(
    session: Session, service: Service, asked: Asked, points: int, body: dict[str, Any], idempotency_key: str | None
) -> StudyResource:
    def make() -> str:
        return store_study(session, service, asked, points)

    return _resource(session, once(session, idempotency_key, "studies", body, make))


def _page(session: Session, filters: dict[str, str | None], cursor: str | None, limit: int) -> StudyPage:
    rows, following = paging.page(session, StudyRow, filters, cursor, limit)
    return StudyPage(items=[study_summary(row) for row in rows], next=following)


def _answer(session: Session, conditions: Conditions, study_id: str) -> Response:
    """The resource, its document as it is stored, which is loaded only where the client does not have it."""
    row = _find(session, study_id)
    tag = tag_of("study", row.id, row.state, row.ticket, row.attempts, row.points_done)
    if conditions.knows(tag):
        return unchanged(tag)

    def text() -> str:
        return f'{study_summary(row).model_dump_json().removesuffix("}")},"study":{row.document or "null"}}}'

    return document(conditions, tag, text)


def _cancel(session: Session, study_id: str) -> StudyResource:
    job_routes.cancel(session, StudyRow, study_id)
    return _resource(session, study_id)


def _delete(session: Session, study_id: str) -> list[Ticket]:
    _find(session, study_id)
    return studies.remove(session, study_id)


def _resource(session: Session, study_id: str) -> StudyResource:
    return study_resource(_find(session, study_id, with_document=True))


def _find(session: Session, study_id: str, *, with_document: bool = False) -> StudyRow:
    return found(studies.find(session, study_id, with_document=with_document), "study", study_id)
