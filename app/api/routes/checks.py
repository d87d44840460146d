"""POST /v1/checks: the gate. Solved while the client waits, in a child process, and not stored."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.requests import ClientDisconnect

from emplace.app.api.body import Body
from emplace.app.api.questions import QUESTION_KEYS, part_of, pointing_into, read_question
from emplace.app.api.requests import CheckRequest, body_of
from emplace.app.database import plans
from emplace.app.jobs.child import ChildFailed, ChildStopped, run_child
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import ask_later
from emplace.app.web.service import Service
from emplace.gate import Budgets, CheckResult, judge
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError
from emplace.placement.plan import Plan, Question
from emplace.placement.reading import read_text

router = APIRouter(prefix="/v1", tags=["checks"])


@router.post("/checks", openapi_extra=body_of(CheckRequest), responses={200: {"model": CheckResult}})
async def check(body: Body, service: TheService, request: Request) -> dict[str, Any]:
    """Does the model fit the host, within the budgets? `fits` is true, false (proven) or null (undecided).

    Without a limit in `options` the answer takes at most 10 s of time, beside the wait for other checks."""
    question, budgets, answer = await service.read(_read, service, body)
    if answer is None:
        answer = await _solve(service, request, question)
    result = await service.documents.run(_judge, answer, budgets)
    return result.model_dump(mode="json")


def _read(session: Session, service: Service, body: dict[str, Any]) -> tuple[Question, Budgets, str | None]:
    """What is asked, and the text of the stored plan that answers it."""
    budgets = part_of(body, "budgets", Budgets)
    question = read_question(session, service, body, QUESTION_KEYS | {"budgets"})
    row = plans.find_answer(session, question.content_digest())
    return question, budgets, row.document if row is not None else None


async def _solve(service: Service, request: Request, question: Question) -> str:
    async def is_over() -> bool:
        return service.closing() or await request.is_disconnected()

    try:
        return await service.checks.run(lambda should_stop: _child(question, should_stop), is_over)
    except ChildStopped:
        if service.closing():
            raise ask_later(HTTPStatus.SERVICE_UNAVAILABLE, "the service is ending before the answer is there; ask again") from None
        raise ClientDisconnect from None


def _child(question: Question, should_stop: Callable[[], bool]) -> str:
    try:
        return run_child("solve", question.canonical_json(), lambda _: None, should_stop)
    except ChildFailed as failure:
        if failure.problems:
            raise InvalidDocument("body", [BrokenRule(**problem) for problem in failure.problems]) from None
        raise ToolError(failure.message) from None


def _judge(answer: str, budgets: Budgets) -> CheckResult:
    with pointing_into("/budgets/baseline"):
        return judge(read_text(answer, Plan, source="plan", as_json=True), budgets)
