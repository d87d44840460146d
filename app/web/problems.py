"""Errors: RFC 9457 problem documents, one shape on every route.

    {"type": "about:blank", "title": "Unprocessable Entity", "status": 422, "detail": "...",
     "errors": [{"in": "body", "pointer": "/model/tables/0/embedding_dim", "detail": "must be ...", "value": "7"}]}

`errors` is there on every problem, empty when no single field is to blame. A `value` is shortened JSON, or a parameter's text.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import ErrorDetails
from sqlalchemy.exc import DataError, DBAPIError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from emplace.app.database.connection import NO_ANSWER
from emplace.app.database.stored import OutdatedDocument
from emplace.app.web.sent import as_sent
from emplace.app.web.threads import NoThreadFree
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError, UnknownName
from emplace.placement.messages import rule_of
from emplace.placement.pointer import pointer_to

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
"""When to ask again what could not be done for lack of room, or of a database."""
CLIENT_LEFT = 499
"""nginx's number for an answer that nobody waits for any more."""

Page = Callable[[Request, int, str], Response]
"""A page for people: the request, the status and the detail of its problem."""
Handler = Callable[[Request, Exception], Awaitable[Response]]
_Found = TypeVar("_Found")


class Refused(Exception):
    """The request is understood and can't be done; `status` says of which kind."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        broken_rules: Iterable[BrokenRule] = (),
        where: str = "body",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.broken_rules, self.where, self.headers = status, detail, tuple(broken_rules), where, headers


def not_found(what: str, resource_id: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, f"no {what} has the id {resource_id!r}")


def found(value: _Found | None, what: str, resource_id: str) -> _Found:
    """What a request asked for by its id. Raises Refused where there is nothing."""
    if value is None:
        raise not_found(what, resource_id)
    return value


def ask_later(status: HTTPStatus, detail: str) -> Refused:
    """What can't be done now, and can be soon."""
    return Refused(status, detail, headers={"Retry-After": str(RETRY_AFTER_S)})


def problem(
    status: int, detail: str, broken_rules: Iterable[BrokenRule] = (), where: str = "body", headers: dict[str, str] | None = None
) -> Response:
    errors = [{"in": where, "pointer": each.pointer, "detail": each.rule, "value": each.value} for each in broken_rules]
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, "errors": errors}
    return JSONResponse(body, status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI, page: Page) -> None:
    """Answer every exception with a problem document, or with `page` where a browser asks for a page."""
    for kind, meaning in _MEANINGS.items():
        app.add_exception_handler(kind, _answering(meaning, page))
    app.add_exception_handler(ClientDisconnect, _nobody)


def _answering(meaning: Callable[[Request, Any], Refused], page: Page) -> Handler:
    async def answer(request: Request, error: Exception) -> Response:
        refused = meaning(request, error)
        if not _wants_page(request):
            return problem(refused.status, refused.detail, refused.broken_rules, refused.where, refused.headers)
        shown = page(request, refused.status, refused.detail)
        shown.headers.update(refused.headers or {})
        return shown

    return answer


async def _nobody(_: Request, __: Exception) -> Response:
    return Response(status_code=CLIENT_LEFT)  # the client has left: nobody reads it


def _refused(_: Request, error: Refused) -> Refused:
    return error


def _invalid(request: Request, error: InvalidDocument) -> Refused:
    body = getattr(request.state, "body", None)
    shown = InvalidDocument(error.source, [as_sent(broken, body) for broken in error.broken_rules])
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(shown), shown.broken_rules)


def _unknown_name(_: Request, error: UnknownName) -> Refused:
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))


def _outdated(_: Request, error: OutdatedDocument) -> Refused:
    return Refused(HTTPStatus.GONE, str(error))


def _missing_here(_: Request, error: ToolError) -> Refused:
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))


def _bad_parameter(_: Request, error: RequestValidationError) -> Refused:
    details: list[ErrorDetails] = list(error.errors())
    where = str(details[0]["loc"][0]) if details else "query"
    broken = [BrokenRule(pointer_to(*item["loc"][1:]), str(item["input"]), rule_of(item)) for item in details]
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(map(str, broken)), broken, where)


def _http_error(request: Request, error: HTTPException) -> Refused:
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_of(request))  # the framework names those of one route
    return Refused(HTTPStatus(error.status_code), f"{request.method} {request.url.path}: {error.detail}", headers=headers)


def _no_such_value(_: Request, __: DataError) -> Refused:
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "the request holds a value that can't be stored, such as a NUL character")


def _no_database(_: Request, error: DBAPIError) -> Refused:
    _log.error("the database does not answer: %s", error.orig)
    return ask_later(HTTPStatus.SERVICE_UNAVAILABLE, "the database does not answer, or is busy; ask again")


def _no_turn(_: Request, __: NoThreadFree) -> Refused:
    return ask_later(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests wait to write to the database; ask again")


_MEANINGS: dict[type[Exception], Callable[[Request, Any], Refused]] = {
    Refused: _refused,
    InvalidDocument: _invalid,
    UnknownName: _unknown_name,
    OutdatedDocument: _outdated,
    ToolError: _missing_here,
    RequestValidationError: _bad_parameter,
    HTTPException: _http_error,
    DataError: _no_such_value,
    **dict.fromkeys(NO_ANSWER, _no_database),
    NoThreadFree: _no_turn,
}


def _wants_page(request: Request) -> bool:
    """A browser that opens an address asks for HTML by name. Below /v1 there are no pages, only documents."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")


def _methods_of(request: Request) -> list[str]:
    """The methods that the routes of this path know together. A file, which no route serves, can be read."""
    scopes = {method: dict(request.scope) | {"method": method} for method in ("GET", "POST", "DELETE")}
    known = [method for method, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)]
    return ["GET", "HEAD", *known[1:]] if known[:1] in ([], ["GET"]) else known
