"""Cost models: uploaded, or measured on a worker's host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus

from fastapi import APIRouter, Depends, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session

from emplace.app.api.body import Body
from emplace.app.api.events import LastEventId, events_of
from emplace.app.api.hosts_at_work import hosts_at_work
from emplace.app.api.idempotency import IdempotencyKey, once
from emplace.app.api.requests import ProfileRequest, body_of
from emplace.app.api.resources import ProfilePage, ProfileResource, profile_resource
from emplace.app.api.routes import jobs as job_routes
from emplace.app.database import profiles
from emplace.app.database.tables import ProfileRow
from emplace.app.web.dependencies import Cursor, Limit, Reading, Service, TheService, cost_models
from emplace.app.web.problems import Refused, not_found
from emplace.placement.cost_model import CostSource
from emplace.placement.reading import from_data

router = APIRouter(prefix="/v1/profiles", tags=["profiles"])


@router.post(
    "",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=body_of(ProfileRequest),
    responses={201: {"model": ProfileResource, "description": "The uploaded cost model is stored."}},
)
def create_profile(body: Body, service: TheService, response: Response, idempotency_key: IdempotencyKey = None) -> ProfileResource:
    """Store the given `cost_model`, or measure a worker's host."""
    wanted = from_data(body, ProfileRequest, source="body")
    with service.database.writing() as session:

        def make() -> str:
            if wanted.cost_model is not None:
                return cost_models(session).keep(wanted.cost_model)
            row = _to_measure(service, session, wanted)
            session.add(row)
            service.queue.put(session, row)
            return row.id

        resource = _resource(session, once(session, idempotency_key, "profiles", body, make))
    response.status_code = HTTPStatus.ACCEPTED if wanted.cost_model is None else HTTPStatus.CREATED
    response.headers["Location"] = f"/v1/profiles/{resource.id}"
    return resource


@router.get("")
def list_profiles(session: Reading, fingerprint: str | None = None, cursor: Cursor = None, limit: Limit = 50) -> ProfilePage:
    """Stored cost models, newest first."""
    rows, following = profiles.page(session, {"host_fingerprint": fingerprint}, cursor, limit)
    return ProfilePage(items=[profile_resource(row) for row in rows], next=following)


@router.get("/{profile_id}")
def get_profile(profile_id: str, session: Reading) -> ProfileResource:
    return _resource(session, profile_id)


@router.post("/{profile_id}/cancel")
def cancel_profile(profile_id: str, service: TheService) -> ProfileResource:
    """End the measuring."""
    job_routes.cancel(service, ProfileRow, profile_id)
    with service.database.reading() as session:
        return _resource(session, profile_id)


@router.get("/{profile_id}/events", response_class=EventSourceResponse, dependencies=[Depends(get_profile)])
async def profile_events(profile_id: str, service: TheService, last_event_id: LastEventId = None) -> AsyncIterator[ServerSentEvent]:
    """Progress as server-sent events: `progress` with a message; `end` with the final state."""
    async for event in events_of(service, ProfileRow, profile_id, last_event_id):
        yield event


def _to_measure(service: Service, session: Session, wanted: ProfileRequest) -> ProfileRow:
    available = hosts_at_work(session)
    fingerprint = wanted.fingerprint or service.local_host.fingerprint
    host = available.get(fingerprint or "")
    if host is None:
        there = ", ".join(available) or "none"
        raise Refused(HTTPStatus.CONFLICT, f"no worker runs on the machine {fingerprint}; machines with a worker: {there}")
    ranks = wanted.ranks or host.num_devices
    return ProfileRow(
        host_name=host.name,
        host_fingerprint=fingerprint,
        source=CostSource.MEASURED,
        ranks=ranks,
        quick=wanted.quick,
        seed=wanted.seed,
    )


def _resource(session: Session, profile_id: str) -> ProfileResource:
    row = profiles.find(session, profile_id)
    if row is None:
        raise not_found("profile", profile_id)
    return profile_resource(row)
