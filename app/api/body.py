"""Request bodies: bounded in size and time, JSON or YAML, parsed with the same care as files."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emplace.app.web.dependencies import service_of
from emplace.app.web.problems import Refused, problem
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.reading import MAX_DOCUMENT_BYTES, parse_json, parse_yaml

MAX_BODY_BYTES = MAX_DOCUMENT_BYTES
_JSON = ("application/json",)
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_PLAIN = "identity"
_SMALL_BYTES = 2**14
"""JSON of this length is parsed sooner than a thread is found for it."""
_PAUSES_IN_ALL = 4
"""A whole body may take so many times as long as one pause in it."""


class BodyLimit:
    """ASGI middleware: refuses a body over the limit as soon as its length is known, without keeping it, and one that stays away.

    After the first the connection stays open and the server drops the rest: closing it under a client that still sends would take
    the answer along.
    """

    def __init__(self, app: ASGIApp, max_pause_s: float, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._max_pause_s = max_pause_s
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length) > self._max_bytes:
            await problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._rule())(scope, receive, send)
            return
        received, whole = 0, False
        deadline = time.monotonic() + _PAUSES_IN_ALL * self._max_pause_s

        async def counted() -> Message:
            nonlocal received, whole
            if whole:  # what comes now is that the client leaves
                return await receive()
            message = await self._in_time(receive, deadline)
            received += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if received > self._max_bytes:
                raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._rule())
            return message

        await self._app(scope, counted, send)

    async def _in_time(self, receive: Receive, deadline: float) -> Message:
        try:
            async with asyncio.timeout(min(self._max_pause_s, deadline - time.monotonic())):
                return await receive()
        except TimeoutError:
            detail = f"the body did not arrive: it paused for {self._max_pause_s:g} s, or took {_PAUSES_IN_ALL} times as long"
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, detail, headers={"Connection": "close"}) from None

    def _rule(self) -> str:
        return f"a request body must be at most {self._max_bytes} bytes"


async def read_mapping(request: Request) -> dict[str, Any]:
    """The body, a JSON or YAML mapping. Raises Refused, InvalidDocument."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _JSON + _YAML:
        given = f", not {media_type}" if media_type else "; it must be said"
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type of a body is application/json or application/yaml{given}")
    encoding = request.headers.get("content-encoding", _PLAIN).strip().lower()
    if encoding != _PLAIN:
        detail = f"a body is sent as it is, without the Content-Encoding {encoding}"
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, headers={"Accept-Encoding": _PLAIN})
    body = await request.body()
    if media_type in _JSON and len(body) <= _SMALL_BYTES:
        data = _parse(body, as_json=True)
    else:
        service = await service_of(request)
        data = await service.documents.run(_parse, body, as_json=media_type in _JSON)
    request.state.body = data  # for problems to show what was sent
    return data


def _parse(body: bytes, *, as_json: bool) -> dict[str, Any]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidDocument("body", [BrokenRule("", "", "must be UTF-8 text")]) from None
    data = parse_json(text, "body") if as_json else parse_yaml(text, "body")
    if not isinstance(data, dict):
        raise InvalidDocument("body", [BrokenRule("", "", "must be a mapping")])
    return data


Body = Annotated[dict[str, Any], Depends(read_mapping)]
