"""POST /v1/checks: the gate. Solved while the client waits, in a child process, and not stored."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from emplace.app.api.body import Body
from emplace.app.api.questions import QUESTION_KEYS, part_of, pointing_into, read_question
from emplace.app.api.requests import CheckRequest, body_of
from emplace.app.database import plans
from emplace.app.jobs.child import ChildFailed, ChildStopped, run_child
from emplace.app.web.dependencies import Service, TheService
from emplace.gate import Budgets, CheckResult, enough_us, judge
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError
from emplace.placement.plan import Plan
from emplace.placement.reading import read_text

router = APIRouter(prefix="/v1", tags=["checks"])

_POLL_SECONDS = 0.5


@router.post("/checks", openapi_extra=body_of(CheckRequest), responses={200: {"model": CheckResult}})
async def check(body: Body, service: TheService, request: Request) -> dict[str, Any]:
    """Does the model fit the host, within the budgets? `fits` is true, false (proven) or null (undecided).

    It answers as soon as that is certain, and looks for the best plan only where the body says `plan`: true. Without a limit in
    `options` the answer takes at most 10 s of time, beside the wait for other checks."""
    gone = threading.Event()
    watch = asyncio.create_task(_watch(request, gone))
    try:
        result = await run_in_threadpool(_check, service, body, gone)
    finally:
        watch.cancel()
    return result.model_dump(mode="json")


async def _watch(request: Request, gone: threading.Event) -> None:
    """Set `gone` when the client has left: nobody waits for the answer any more."""
    while not await request.is_disconnected():
        await asyncio.sleep(_POLL_SECONDS)
    gone.set()


def _check(service: Service, body: dict[str, Any], gone: threading.Event) -> CheckResult:
    budgets, whole = part_of(body, "budgets", Budgets), _flag(body, "plan")
    with service.database.reading() as session:
        question = read_question(service, session, body, QUESTION_KEYS | {"budgets", "plan"})
        row = plans.find_answer(session, question.content_digest())
        text = row.document if row is not None else None
    with pointing_into("/budgets/baseline"):  # what can be refused before any solving
        enough_us(question, budgets)
        if text is not None:
            return judge(read_text(text, Plan, source="plan", as_json=True), budgets)
    asked = {"question": question.to_data(), "budgets": budgets.to_data(), "plan": whole}
    return read_text(_solve(service, json.dumps(asked), gone), CheckResult, source="check", as_json=True)


def _flag(body: dict[str, Any], key: str) -> bool:
    """Raises InvalidDocument for what is neither true nor false."""
    if not isinstance(value := body.get(key, False), bool):
        raise InvalidDocument("body", [BrokenRule(f"/{key}", repr(value)[:100], "must be true or false")])
    return value


def _solve(service: Service, asked: str, gone: threading.Event) -> str:
    with service.checks:
        try:
            return run_child("check", asked, lambda _: None, gone.is_set)
        except ChildStopped:
            raise ToolError("the client left before the answer") from None
        except ChildFailed as failure:
            if failure.problems:
                raise InvalidDocument("body", [BrokenRule(**problem) for problem in failure.problems]) from None
            raise ToolError(failure.message) from None
