"""Each request has an id, which is in its answer and in all that is logged about it; what breaks is logged and answered here."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emplace.app.logs import about
from emplace.app.web.problems import RETRY_AFTER_S, problem
from emplace.app.web.turns import as_came_now

_log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
_RAW_HEADER = HEADER.lower().encode()
_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)


class Identified:
    """ASGI middleware, around all that may fail. A client or proxy may bring its own id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        brought = Headers(scope=scope).get(HEADER, "")
        # No secret: what the system draws would have the loop wait for other threads.
        request_id = brought if _ID.fullmatch(brought) else random.randbytes(8).hex()
        begun = False

        async def identified(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], (_RAW_HEADER, request_id.encode())]
            await send(message)

        with about(f"request {request_id}"), as_came_now():
            try:
                await self._app(scope, receive, identified)
            except asyncio.CancelledError:
                # The server ends and waits no longer. An answer that has begun is cut off.
                if not begun:
                    await _ended()(scope, receive, identified)
            except Exception:
                _log.exception("%s %s failed", scope["method"], scope["path"])
                if begun:
                    raise  # half an answer is out: the server cuts the connection
                await _failed(request_id)(scope, receive, identified)


def _ended() -> ASGIApp:
    detail = "the service is ending before the answer is there; ask again"
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_AFTER_S), "Connection": "close"})


def _failed(request_id: str) -> ASGIApp:
    """The connection is closed: nobody knows what state it is in."""
    detail = f"the service failed; its log says where, about request {request_id}"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail, headers={"Connection": "close"})
