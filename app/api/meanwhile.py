"""Child programs that a client waits for: few at once, ended with the client that asked."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from fastapi import Request
from starlette.requests import ClientDisconnect

from emplace.app.jobs.child import run_child
from emplace.app.jobs.child_errors import ChildFailed, ChildStopped
from emplace.app.web.problems import ask_later
from emplace.app.web.service import Service
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError


async def solve_meanwhile(service: Service, request: Request, step: str, text: str, timeout_s: float | None = None) -> str:
    """What app.steps.<step> makes of the text. Raises InvalidDocument for what it refuses, and what takes longer than it may."""

    async def is_over() -> bool:
        return service.closing() or await request.is_disconnected()

    def child(should_stop: Callable[[], bool]) -> str:
        try:
            return run_child(step, text, lambda _: None, should_stop, timeout_s, warm=service.warm)
        except ChildFailed as failure:
            if failure.problems:
                raise InvalidDocument("body", [BrokenRule(**problem) for problem in failure.problems]) from None
            if failure.took_too_long:
                raise InvalidDocument("body", [BrokenRule("", "", f"is too much to ask at once: {failure.message}")]) from None
            raise ToolError(failure.message) from None

    try:
        return await service.checks.run(child, is_over)
    except ChildStopped:
        if service.closing():
            raise ask_later(HTTPStatus.SERVICE_UNAVAILABLE, "the service is ending before the answer is there; ask again") from None
        raise ClientDisconnect from None
