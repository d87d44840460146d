"""What plans, runs and profiles have in common as jobs: being cancelled."""

from __future__ import annotations

from http import HTTPStatus

from sqlalchemy.orm import Session

from emplace.app.database import jobs
from emplace.app.database.jobs import JobRow
from emplace.app.database.states import State
from emplace.app.web.problems import Refused, not_found


def cancel(session: Session, kind: type[JobRow], resource_id: str) -> None:
    """Cancel a job; cancelling it again changes nothing. Raises Refused when it has ended otherwise."""
    state = jobs.cancel(session, kind, resource_id)
    if state is None:
        raise not_found(_name(kind), resource_id)
    if state is not State.CANCELLED:
        raise Refused(HTTPStatus.CONFLICT, f"the {_name(kind)} is {state}: there is nothing to cancel")


def _name(kind: type[JobRow]) -> str:
    return {"studies": "study"}.get(kind.__tablename__, kind.__tablename__.removesuffix("s"))
