"""The login page: a key for a cookie, so that a browser can show the pages of a service that asks for keys."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from emplace.app.dashboard.rendering import login_page
from emplace.app.web.access import COOKIE, is_asked

router = APIRouter(include_in_schema=False)

_HOURS = 12
_MAX_BYTES = 4096


@router.get("/login", response_class=HTMLResponse)
async def ask(request: Request, to: Annotated[str, Query()] = "/") -> HTMLResponse:
    return login_page(request, to)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """The cookie is the key itself: revoking the key ends the session. Scripts don't see it, and other sites can't use it."""
    given = parse_qs((await request.body())[:_MAX_BYTES].decode(errors="replace"))
    key, to = (given.get(name, [""])[0].strip() for name in ("key", "to"))
    answer = RedirectResponse(_own(to), HTTPStatus.SEE_OTHER)
    if not is_asked(request):
        return answer
    if await request.app.state.keys.scope_of(key) is None:
        return login_page(request, to, "This key is not known, or was revoked.", HTTPStatus.UNAUTHORIZED)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, key, max_age=3600 * _HOURS, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
async def log_out() -> Response:
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE)
    return answer


def _own(path: str) -> str:
    """A path of this service, whatever was asked for: not `//elsewhere`, and none that a browser reads as that."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"
