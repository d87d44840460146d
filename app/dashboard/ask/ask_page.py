"""A new plan: a model and a host that are picked, pasted or uploaded, and options. What is wrong is said at its field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from emplace.app.api.questions import read_question
from emplace.app.dashboard.actions import ask_for, go_to, question_of
from emplace.app.dashboard.ask.fields import AskForm, body_of, errors_by_field, form_of, fresh_form, sent_form
from emplace.app.dashboard.ask.kept import KeptPart, kept_parts, named_stack, with_kept
from emplace.app.dashboard.forms import TheForm
from emplace.app.dashboard.loaded import find_row
from emplace.app.dashboard.rendering import show
from emplace.app.web.dependencies import TheService, cost_models
from emplace.placement.catalog import LOCAL_HOST, host_names, model_names, stack_names
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import Tier
from emplace.placement.plan import Question
from emplace.placement.workload import Objective
from emplace.planning import measured_cost_model

router = APIRouter()


@dataclass(frozen=True)
class AskPage:
    """The form, and what its lists offer. `again` is the plan that it began with, `kept` what of it no field shows, in words."""

    form: AskForm
    models: list[str]
    hosts: list[str]
    stacks: list[str]
    tiers: list[str]
    objectives: list[str]
    again: str | None = None
    kept: dict[str, str] = field(default_factory=dict)


@router.get("/new")
async def ask_page(request: Request, service: TheService, plan: str | None = None, model: str = "", host: str = "") -> Response:
    """An empty form, or the question of a plan to be changed."""
    page = _page(fresh_form(model, host)) if plan is None else await service.read(_again, plan)
    return show(request, "new.html", page)


@router.post("/new")
async def ask(request: Request, form: TheForm, service: TheService) -> Response:
    """The page of the new plan, or the form with what is wrong with it."""
    again = form.text("again") or None
    parts = [] if again is None else await service.read(_kept, again)
    try:
        body = with_kept(await service.documents.run(body_of, form), parts, form.every("keep"))
        question = await service.read(read_question, service, body)
    except InvalidDocument as error:
        page = _page(sent_form(form, errors_by_field(error)), again, parts)
        return show(request, "new.html", page, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return go_to(await service.write(ask_for, service, question))


def _again(session: Session, plan_id: str) -> AskPage:
    question = question_of(find_row(session, plan_id))
    usual = _usual_prices(session, question)
    parts = kept_parts(question, usual)
    stack = None if question.cost_model == usual else named_stack(question)
    return _page(form_of(question, stack, [part.key for part in parts]), plan_id, parts)


def _kept(session: Session, plan_id: str) -> list[KeptPart]:
    question = question_of(find_row(session, plan_id))
    return kept_parts(question, _usual_prices(session, question))


def _usual_prices(session: Session, question: Question) -> CostModel:
    """Those of a question that says nothing of them."""
    return measured_cost_model(cost_models(session), question.host, question.options) or datasheet_cost_model(question.host)


def _page(form: AskForm, again: str | None = None, kept: Iterable[KeptPart] = ()) -> AskPage:
    words = {part.key: part.words for part in kept}
    return AskPage(form, model_names(), [*host_names(), LOCAL_HOST], stack_names(), [*Tier], [*Objective], again, words)
