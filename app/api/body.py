"""Request bodies: of bounded size, JSON or YAML, parsed with the same care as files."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emplace.app.web.problems import Refused, problem
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.reading import MAX_DOCUMENT_BYTES, parse_json, parse_yaml

MAX_BODY_BYTES = MAX_DOCUMENT_BYTES
_JSON = ("", "application/json")
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


class BodyLimit:
    """ASGI middleware: refuses a body over the limit as soon as its length is known, without keeping it.

    The connection stays open and the server drops the rest: closing it under a client that still sends would take the answer along.
    """

    def __init__(self, app: ASGIApp, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length) > self._max_bytes:
            await self._refusal()(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._rule())
            return message

        await self._app(scope, counted, send)

    def _refusal(self) -> ASGIApp:
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._rule())

    def _rule(self) -> str:
        return f"a request body must be at most {self._max_bytes} bytes"


async def read_mapping(request: Request) -> dict[str, Any]:
    """The body, a JSON or YAML mapping. Raises Refused, InvalidDocument."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _JSON + _YAML:
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a body is application/json or application/yaml, not {media_type}")
    body = await request.body()
    data = await run_in_threadpool(_parse, body, media_type in _JSON)
    request.state.body = data  # for problems to show what was sent
    return data


def _parse(body: bytes, as_json: bool) -> dict[str, Any]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidDocument("body", [BrokenRule("", "", "must be UTF-8 text")]) from None
    data = parse_json(text, "body") if as_json else parse_yaml(text, "body")
    if not isinstance(data, dict):
        raise InvalidDocument("body", [BrokenRule("", "", "must be a mapping")])
    return data


Body = Annotated[dict[str, Any], Depends(read_mapping)]
