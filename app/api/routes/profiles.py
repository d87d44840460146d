"""Cost models: uploaded, or measured on a worker's host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session, undefer

from emplace.app.api import examples
from emplace.app.api.body import Body
from emplace.app.api.events import LastEventId, events_of
from emplace.app.api.hosts_at_work import hosts_at_work
from emplace.app.api.idempotency import IdempotencyKey, once
from emplace.app.api.queueing import put_new
from emplace.app.api.requests import ProfileRequest, body_of
from emplace.app.api.resources import ProfilePage, ProfileResource, profile_resource
from emplace.app.api.routes import jobs as job_routes
from emplace.app.database import jobs, paging, profiles
from emplace.app.database.jobs import Ticket
from emplace.app.database.keys import AccessScope
from emplace.app.database.tables import ProfileRow
from emplace.app.web.access import demand, is_asked, needs
from emplace.app.web.addresses import is_loopback
from emplace.app.web.dependencies import Cursor, Limit, TheService, cost_models
from emplace.app.web.problems import Refused, found
from emplace.app.web.service import Service
from emplace.placement.cost_model import CostSource
from emplace.placement.reading import from_data

router = APIRouter(prefix="/v1/profiles", tags=["profiles"])


@router.post(
    "",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=body_of(ProfileRequest, examples.profiles()),
    responses={201: {"model": ProfileResource, "description": "The uploaded cost model is stored."}},
)
async def create_profile(
    body: Body, service: TheService, request: Request, response: Response, idempotency_key: IdempotencyKey = None
) -> ProfileResource:
    """Store the given `cost_model`, or measure a worker's host. A machine's cost model prices all its later plans, so it is taken
    with a key of scope admin, or where nobody is asked for keys from the service's own machine, unless EMPLACE_COST_MODELS_FROM says
    otherwise (403)."""
    wanted = await service.documents.run(from_data, body, ProfileRequest, source="body")
    if wanted.cost_model is None:
        demand(request, AccessScope.RUN)
    elif wanted.cost_model.fingerprint is not None:
        demand(request, AccessScope.ADMIN)
        _refuse_strangers(service, request)
    resource = await service.write(_create, service, wanted, body, idempotency_key)
    response.status_code = HTTPStatus.ACCEPTED if wanted.cost_model is None else HTTPStatus.CREATED
    response.headers["Location"] = f"/v1/profiles/{resource.id}"
    return resource


@router.get("")
async def list_profiles(service: TheService, fingerprint: str | None = None, cursor: Cursor = None, limit: Limit = 50) -> ProfilePage:
    """Stored cost models, newest first."""
    return await service.read(_page, fingerprint, cursor, limit)


@router.get("/{profile_id}")
async def get_profile(profile_id: str, service: TheService) -> ProfileResource:
    return await service.read(_resource, profile_id)


@router.post("/{profile_id}/cancel", dependencies=[Depends(needs(AccessScope.RUN))])
async def cancel_profile(profile_id: str, service: TheService) -> ProfileResource:
    """End the measuring."""
    return await service.write(_cancel, profile_id)


@router.delete("/{profile_id}", status_code=HTTPStatus.NO_CONTENT, dependencies=[Depends(needs(AccessScope.ADMIN))])
async def delete_profile(profile_id: str, service: TheService) -> None:
    """Remove a profile: it prices no more plans, and measuring that is still at work ends."""
    await service.delete(_delete, profile_id)


@router.get("/{profile_id}/events", response_class=EventSourceResponse, dependencies=[Depends(get_profile)])
async def profile_events(profile_id: str, service: TheService, last_event_id: LastEventId = None) -> AsyncIterator[ServerSentEvent]:
    """Progress as server-sent events: `progress` with a message; `end` with the final state."""
    async for event in events_of(service, ProfileRow, profile_id, last_event_id):
        yield event


def _refuse_strangers(service: Service, request: Request) -> None:
    """Raises Refused where a machine's cost model comes from another machine and may not."""
    if is_asked(request) or service.settings.cost_models_from == "anyone" or (request.client and is_loopback(request.client.host)):
        return
    detail = "a machine's cost model prices all its later plans: it is taken from this machine only, unless EMPLACE_COST_MODELS_FROM=anyone"
    raise Refused(HTTPStatus.FORBIDDEN, detail)


def _create(
    session: Session, service: Service, wanted: ProfileRequest, body: dict[str, Any], idempotency_key: str | None
) -> ProfileResource:
    def make() -> str:
        if wanted.cost_model is not None:
            return cost_models(session).keep(wanted.cost_model)
        row = _to_measure(service, session, wanted)
        put_new(service, session, row)
        return row.id

    return _resource(session, once(session, idempotency_key, "profiles", body, make))


def _to_measure(service: Service, session: Session, wanted: ProfileRequest) -> ProfileRow:
    available = hosts_at_work(service, session)
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


def _page(session: Session, fingerprint: str | None, cursor: str | None, limit: int) -> ProfilePage:
    rows, following = paging.page(session, ProfileRow, {"host_fingerprint": fingerprint}, cursor, limit, undefer(ProfileRow.document))
    return ProfilePage(items=[profile_resource(row) for row in rows], next=following)


def _cancel(session: Session, profile_id: str) -> ProfileResource:
    job_routes.cancel(session, ProfileRow, profile_id)
    return _resource(session, profile_id)


def _delete(session: Session, profile_id: str) -> list[Ticket]:
    _resource(session, profile_id)
    return jobs.remove(session, ProfileRow, profile_id)


def _resource(session: Session, profile_id: str) -> ProfileResource:
    return profile_resource(found(profiles.find(session, profile_id), "profile", profile_id))
