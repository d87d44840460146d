"""Two studies beside each other: where they ask differently, both figures, and each point that both have."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard.actions import Ticked
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.studies.asked_shown import asked_changes, asked_of
from emplace.app.dashboard.studies.shown import MOST_ROWS, ShownAnswer, answer_of, figure_of, shown, values_of
from emplace.app.dashboard.studies.studies_page import StudyLine, find_study, study_line
from emplace.app.diff import Change
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import Refused

router = APIRouter()

_MOST_CHANGES = 100


@dataclass(frozen=True)
class ComparedPoint:
    """`change` is (after - before) / before, None where they are not of one thing."""

    name: str
    before: float | None
    after: float | None
    change: float | None


@dataclass(frozen=True)
class ComparedStudies:
    studies: list[StudyLine]
    answers: list[ShownAnswer]
    questions: list[Change]
    """Where they ask differently: the first few."""
    more_questions: int
    figures: tuple[str, str]
    """What the figure of each is of. They are compared where it is one thing."""
    points: list[ComparedPoint]


@router.get("/studies/compare")
async def compare_studies_page(request: Request, service: TheService, study: Ticked = []) -> Response:  # noqa: B006
    return show(request, "compare_studies.html", await service.read(_page, study))


def _page(session: Session, ids: list[str]) -> ComparedStudies:
    if len(ids) != 2:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"two studies are compared: tick two in the list (ticked: {len(ids)})")
    rows = [find_study(session, study_id) for study_id in ids]
    for row in rows:
        if row.document is None:
            raise Refused(HTTPStatus.CONFLICT, f"the study of {row.model_name} is {row.state}: it has no answer to compare")
    if rows[0].kind != rows[1].kind:
        raise Refused(HTTPStatus.CONFLICT, f"a {rows[0].kind} and a {rows[1].kind} have nothing to compare: tick two of one kind")
    answers = [answer_of(row.kind, row.document or "") for row in rows]
    changes = asked_changes(*(asked_of(row) for row in rows))
    figures = figure_of(answers[0]), figure_of(answers[1])
    before, after = (dict(values_of(answer)) for answer in answers)
    points = [_compared(name, value, after[name], figures) for name, value in before.items() if name in after]
    return ComparedStudies(
        studies=[study_line(row) for row in rows],
        answers=[shown(answer) for answer in answers],
        questions=changes[:_MOST_CHANGES],
        more_questions=max(0, len(changes) - _MOST_CHANGES),
        figures=figures,
        points=points[:MOST_ROWS],
    )


def _compared(name: str, before: float | None, after: float | None, figures: tuple[str, str]) -> ComparedPoint:
    if not before or after is None or figures[0] != figures[1]:
        return ComparedPoint(name, before, after, None)
    return ComparedPoint(name, before, after, after / before - 1)
