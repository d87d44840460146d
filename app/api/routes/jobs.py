"""What plans, runs and profiles have in common as jobs: progress, and being cancelled."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Header
from fastapi.responses import StreamingResponse

from emplace.app.api.events import stream
from emplace.app.database import jobs
from emplace.app.database.jobs import JobRow
from emplace.app.database.states import State
from emplace.app.web.dependencies import Service
from emplace.app.web.problems import Refused, not_found

LastEventId = Annotated[str | None, Header(pattern="^[0-9]{1,18}$")]


def events(service: Service, kind: type[JobRow], resource_id: str, last_event_id: str | None) -> StreamingResponse:
    with service.database.reading() as session:
        if jobs.state_of(session, kind, resource_id) is None:
            raise not_found(_name(kind), resource_id)
    return stream(service, kind, resource_id, int(last_event_id or 0))


def cancel(service: Service, kind: type[JobRow], resource_id: str) -> None:
    """Cancel a job; cancelling it again changes nothing. Raises Refused when it has ended otherwise."""
    with service.database.writing() as session:
        state = jobs.cancel(session, kind, resource_id)
    if state is None:
        raise not_found(_name(kind), resource_id)
    if state is not State.CANCELLED:
        raise Refused(HTTPStatus.CONFLICT, f"the {_name(kind)} is {state}: there is nothing to cancel")


def _name(kind: type[JobRow]) -> str:
    return kind.__tablename__.removesuffix("s")
