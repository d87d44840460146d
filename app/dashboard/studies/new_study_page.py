"""A new study: a model, hosts, and what varies, what it must reach, or what is ranked by. What is wrong is said at its field."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from emplace.app.api.studies import points_of, read_study, store_study
from emplace.app.dashboard.actions import go_to
from emplace.app.dashboard.ask.fields import AskForm, errors_by_field
from emplace.app.dashboard.ask.study_fields import fields_of, sent_study, study_body
from emplace.app.dashboard.forms import TheForm
from emplace.app.dashboard.rendering import show
from emplace.app.web.dependencies import TheService
from emplace.placement.catalog import LOCAL_HOST, host_names, model_names, stack_names
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import Tier
from emplace.studies.asked import StudyKind
from emplace.studies.jobs import Wanted
from emplace.studies.recommend import RankingObjective

router = APIRouter()
_OBJECTIVES: dict[str, list[str]] = {"sweep": [], "size": [*Wanted], "recommend": [*RankingObjective], "batch": []}


@dataclass(frozen=True)
class NewStudyPage:
    """The form of one kind, and what its lists offer."""

    kind: str
    form: AskForm
    models: list[str]
    hosts: list[str]
    stacks: list[str]
    tiers: list[str]
    objectives: list[str]


@router.get("/studies/new")
async def new_study_page(request: Request, kind: StudyKind = "sweep", model: str = "", host: str = "") -> Response:
    return show(request, "new_study.html", _page(kind, AskForm({"model": model}, hosts=(host,))))


@router.post("/studies/new")
async def ask_study(request: Request, form: TheForm, service: TheService, kind: StudyKind = "sweep") -> Response:
    """The page of the new study, or the form with what is wrong with it."""
    try:
        body = await service.documents.run(study_body, form, kind)
        asked = await service.read(read_study, service, body)
        points = await points_of(service, request, asked)
    except InvalidDocument as error:
        page = _page(kind, sent_study(form, kind, errors_by_field(error, fields_of(kind))))
        return show(request, "new_study.html", page, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return go_to(f"/studies/{await service.write(store_study, service, asked, points)}")


def _page(kind: str, form: AskForm) -> NewStudyPage:
    return NewStudyPage(kind, form, model_names(), [*host_names(), LOCAL_HOST], stack_names(), [*Tier], _OBJECTIVES[kind])
