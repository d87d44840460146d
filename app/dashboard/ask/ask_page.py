"""A new plan: a model and a host that are picked, pasted or uploaded, and options. What is wrong is said at its field."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from emplace.app.api.questions import read_question
from emplace.app.dashboard.actions import ask_for, go_to, question_of
from emplace.app.dashboard.ask.fields import AskForm, body_of, errors_by_field, form_of, fresh_form, sent_form
from emplace.app.dashboard.forms import TheForm
from emplace.app.dashboard.loaded import find_row
from emplace.app.dashboard.rendering import show
from emplace.app.web.dependencies import TheService
from emplace.placement.catalog import LOCAL_HOST, host_names, model_names, stack_names
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import Tier
from emplace.placement.workload import Objective

router = APIRouter()


@dataclass(frozen=True)
class AskPage:
    """The form, and what its lists offer. `again` is the plan that it began with."""

    form: AskForm
    models: list[str]
    hosts: list[str]
    stacks: list[str]
    tiers: list[str]
    objectives: list[str]
    again: str | None = None


@router.get("/new")
async def ask_page(request: Request, service: TheService, plan: str | None = None, model: str = "", host: str = "") -> Response:
    """An empty form, or the question of a plan to be changed."""
    form = fresh_form(model, host) if plan is None else await service.read(_again, plan)
    return show(request, "new.html", _page(form, plan))


@router.post("/new")
async def ask(request: Request, form: TheForm, service: TheService) -> Response:
    """The page of the new plan, or the form with what is wrong with it."""
    try:
        body = await service.documents.run(body_of, form)
        question = await service.read(read_question, service, body)
    except InvalidDocument as error:
        page = _page(sent_form(form, errors_by_field(error)), form.text("again") or None)
        return show(request, "new.html", page, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return go_to(await service.write(ask_for, service, question))


def _again(session: Session, plan_id: str) -> AskForm:
    return form_of(question_of(find_row(session, plan_id)))


def _page(form: AskForm, again: str | None) -> AskPage:
    return AskPage(form, model_names(), [*host_names(), LOCAL_HOST], stack_names(), [*Tier], [*Objective], again)
