"""POST /v1/checks: the gate. Solved while the client waits, in a child process, and not stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session

from emplace.app.api import examples
from emplace.app.api.body import Body
from emplace.app.api.meanwhile import solve_meanwhile
from emplace.app.api.questions import QUESTION_KEYS, part_of, pointing_into, read_question
from emplace.app.api.requests import CheckRequest, body_of
from emplace.app.database import plans
from emplace.app.web.dependencies import TheService
from emplace.app.web.service import Service
from emplace.gate import Budgets, CheckResult, enough_us, judge
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import Plan, Question
from emplace.placement.power import power_range_w
from emplace.placement.reading import read_text

router = APIRouter(prefix="/v1", tags=["checks"])


@dataclass(frozen=True)
class Asked:
    """What a body asks, and the text of the stored plan that answers its question, if there is one."""

    question: Question
    budgets: Budgets
    wants_plan: bool
    answer: str | None


@router.post("/checks", openapi_extra=body_of(CheckRequest, examples.checks()), responses={200: {"model": CheckResult}})
async def check(body: Body, service: TheService, request: Request) -> dict[str, Any]:
    """Does the model fit the host, within the budgets? `fits` is true, false (proven) or null (undecided).

    It answers as soon as that is certain, and looks for the best plan only where the body says `plan`: true. Without a limit in
    `options` the answer takes at most 10 s of time, beside the wait for other checks."""
    asked = await service.read(_read, service, body)
    if asked.answer is not None:
        result = await service.documents.run(_judge, asked.answer, asked.budgets)
    else:
        text = json.dumps({"question": asked.question.to_data(), "budgets": asked.budgets.to_data(), "plan": asked.wants_plan})
        result = await service.documents.run(_result, await solve_meanwhile(service, request, "check", text))
    return result.model_dump(mode="json")


def _read(session: Session, service: Service, body: dict[str, Any]) -> Asked:
    """Raises InvalidDocument also for a baseline that no answer can be compared with and a host without watts where these have a budget,
    before anything is solved."""
    budgets, wants_plan = part_of(body, "budgets", Budgets), _flag(body, "plan")
    question = read_question(session, service, body, QUESTION_KEYS | {"budgets", "plan"})
    with pointing_into("/host"):
        if budgets.max_power_w is not None:
            power_range_w(question)
    with pointing_into("/budgets/baseline"):
        enough_us(question, budgets)
    row = plans.find_answer(session, question.content_digest())
    return Asked(question, budgets, wants_plan, row.document if row is not None else None)


def _flag(body: dict[str, Any], key: str) -> bool:
    """Raises InvalidDocument for what is neither true nor false."""
    if not isinstance(value := body.get(key, False), bool):
        raise InvalidDocument("body", [BrokenRule(f"/{key}", repr(value)[:100], "must be true or false")])
    return value


def _judge(answer: str, budgets: Budgets) -> CheckResult:
    with pointing_into("/budgets/baseline"):
        return judge(read_text(answer, Plan, source="plan", as_json=True), budgets)


def _result(text: str) -> CheckResult:
    return read_text(text, CheckResult, source="check", as_json=True)
