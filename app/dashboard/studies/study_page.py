"""One study: how far it is, then its figure and its table."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.studies.asked_shown import asked_facts, asked_of
from emplace.app.dashboard.studies.shown import ShownAnswer, answer_of, shown
from emplace.app.dashboard.studies.studies_page import StudyLine, find_study, study_line
from emplace.app.web.dependencies import TheService

router = APIRouter()


@dataclass(frozen=True)
class StudyView:
    """`asked` are names and values; `answer` is there once all points are."""

    study: StudyLine
    asked: dict[str, str]
    error_text: str | None
    answer: ShownAnswer | None


@router.get("/studies/{study_id}")
async def study_page(request: Request, study_id: str, service: TheService) -> Response:
    return show(request, "study.html", await service.read(_page, study_id))


def _page(session: Session, study_id: str) -> StudyView:
    row = find_study(session, study_id)
    answer = None if row.document is None else shown(answer_of(row.kind, row.document))
    return StudyView(study_line(row), asked_facts(asked_of(row)), row.error, answer)
