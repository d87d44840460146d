"""Errors: RFC 9457 problem documents, one shape on every route.

    {"type": "about:blank", "title": "Unprocessable Entity", "status": 422, "detail": "...",
     "errors": [{"in": "body", "pointer": "/model/tables/0/embedding_dim", "detail": "must be ...", "value": "7"}]}

`errors` is there on every problem, empty when no single field is to blame. A `value` is shortened JSON, or a parameter's text.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import ErrorDetails
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from emplace.app.web.sent import as_sent
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError, UnknownName
from emplace.placement.messages import rule_of
from emplace.placement.pointer import pointer_to

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class Refused(Exception):
    """The request is understood and can't be done; `status` says of which kind."""

    def __init__(self, status: HTTPStatus, detail: str, broken_rules: Iterable[BrokenRule] = (), where: str = "body") -> None:
        super().__init__(detail)
        self.status, self.detail, self.broken_rules, self.where = status, detail, tuple(broken_rules), where


def not_found(what: str, resource_id: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, f"no {what} has the id {resource_id!r}")


def problem(
    status: int, detail: str, broken_rules: Iterable[BrokenRule] = (), where: str = "body", headers: dict[str, str] | None = None
) -> Response:
    errors = [{"in": where, "pointer": each.pointer, "detail": each.rule, "value": each.value} for each in broken_rules]
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, "errors": errors}
    return JSONResponse(body, status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every exception with a problem document."""

    @app.exception_handler(Refused)
    def refused(_: Request, error: Refused) -> Response:
        return problem(error.status, error.detail, error.broken_rules, error.where)

    @app.exception_handler(InvalidDocument)
    def invalid(request: Request, error: InvalidDocument) -> Response:
        body = getattr(request.state, "body", None)
        shown = InvalidDocument(error.source, [as_sent(broken, body) for broken in error.broken_rules])
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(shown), shown.broken_rules)

    @app.exception_handler(UnknownName)
    @app.exception_handler(ToolError)
    def no_such_name(_: Request, error: UnknownName | ToolError) -> Response:
        status = HTTPStatus.UNPROCESSABLE_ENTITY if isinstance(error, UnknownName) else HTTPStatus.INTERNAL_SERVER_ERROR
        return problem(status, str(error))

    @app.exception_handler(RequestValidationError)
    def bad_parameter(_: Request, error: RequestValidationError) -> Response:
        details: list[ErrorDetails] = list(error.errors())
        where = str(details[0]["loc"][0]) if details else "query"
        broken = [BrokenRule(pointer_to(*item["loc"][1:]), str(item["input"]), rule_of(item)) for item in details]
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(map(str, broken)), broken, where)

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {request.url.path}: {error.detail}"
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_methods_of(request))  # the framework names those of one route
        return problem(error.status_code, detail, headers=headers)

    @app.exception_handler(DataError)
    def no_such_value(_: Request, __: DataError) -> Response:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "the request holds a value that can't be stored, such as a NUL character")

    @app.exception_handler(OperationalError)
    def no_database(_: Request, error: OperationalError) -> Response:
        _log.error("the database does not answer: %s", error.orig)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the database does not answer", headers={"Retry-After": "5"})

    @app.exception_handler(Exception)
    def bug(_: Request, __: Exception) -> Response:
        # The exception goes on to the server, which then closes the connection.
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the service failed; its log says where", headers={"Connection": "close"})


def _methods_of(request: Request) -> list[str]:
    """The methods that the routes of this path know together. A file, which no route serves, can be read."""
    scopes = {method: dict(request.scope) | {"method": method} for method in ("GET", "POST", "DELETE")}
    known = [method for method, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)]
    return ["GET", "HEAD", *known[1:]] if known[:1] in ([], ["GET"]) else known
