"""The list of stored studies, and what its buttons do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard import tones
from emplace.app.dashboard.actions import go_to
from emplace.app.dashboard.forms import TheForm
from emplace.app.dashboard.rendering import show
from emplace.app.database import jobs, paging, studies
from emplace.app.database.jobs import Ticket
from emplace.app.database.keys import AccessScope
from emplace.app.database.states import State
from emplace.app.database.tables import StudyRow
from emplace.app.web.access import needs
from emplace.app.web.dependencies import Cursor, TheService
from emplace.app.web.problems import found, not_found

router = APIRouter()

_ROWS = 50


@dataclass(frozen=True)
class StudyLine:
    id: str
    kind: str
    model: str
    hosts: list[str]
    varied: list[str]
    state: str
    tone: tones.Tone
    points: int
    points_done: int
    asked_at: datetime
    is_final: bool


@router.get("/studies")
async def studies_page(request: Request, service: TheService, cursor: Cursor = None) -> Response:
    """Stored studies, newest first."""
    return show(request, "studies.html", await service.read(_list, cursor))


@router.post("/studies/{study_id}/cancel")
async def cancel_study(study_id: str, service: TheService) -> Response:
    """End a study that is not done."""
    await service.write(_cancel, study_id)
    return go_to(f"/studies/{study_id}")


@router.post("/studies/delete", dependencies=[Depends(needs(AccessScope.ADMIN))])
async def delete_studies(form: TheForm, service: TheService) -> Response:
    """Remove studies."""
    await service.delete(_delete, form.every("study"))
    return go_to("/studies")


def find_study(session: Session, study_id: str) -> StudyRow:
    """The row with its document. Raises Refused where there is none."""
    return found(studies.find(session, study_id, with_document=True), "study", study_id)


def study_line(row: StudyRow) -> StudyLine:
    state = State(row.state)
    return StudyLine(
        id=row.id,
        kind=row.kind,
        model=row.model_name,
        hosts=json.loads(row.hosts),
        varied=json.loads(row.varied),
        state=state.value,
        tone=tones.of_job(state),
        points=row.points,
        points_done=row.points_done,
        asked_at=row.created_at,
        is_final=state.is_final,
    )


def _list(session: Session, cursor: str | None) -> dict[str, object]:
    rows, following = paging.page(session, StudyRow, {}, cursor, _ROWS)
    lines = [study_line(row) for row in rows]
    return {"studies": lines, "next": following, "unfinished": any(not line.is_final for line in lines)}


def _cancel(session: Session, study_id: str) -> None:
    if jobs.cancel(session, StudyRow, study_id) is None:
        raise not_found("study", study_id)


def _delete(session: Session, study_ids: list[str]) -> list[Ticket]:
    return [ticket for study_id in study_ids for ticket in studies.remove(session, study_id)]
