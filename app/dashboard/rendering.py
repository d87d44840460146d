"""Templates to answers: each page with the policy that lets it load the service's own files and nothing else."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from emplace.app.reports.figures import microseconds, percent, rate
from emplace.placement.units import show_gib

_HERE = Path(__file__).parent
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "same-origin"}
"""Without a referrer a browser sends a page's form as from nowhere (`Origin: null`), which is refused."""

_templates = Jinja2Templates(_HERE / "templates")
_templates.env.filters.update(us=microseconds, percent=percent, rate=rate, size=show_gib)
_templates.env.trim_blocks = _templates.env.lstrip_blocks = True


def static_files() -> StaticFiles:
    return StaticFiles(directory=_HERE / "static")


def render(request: Request, template: str, *, status: int = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    return _templates.TemplateResponse(request, template, values, status, headers=_HEADERS)


def login_page(request: Request, to: str, wrong: str = "", status: int = HTTPStatus.OK) -> HTMLResponse:
    """It leads on to the path `to`; `wrong` says what was wrong with the key."""
    return render(request, "login.html", status=status, to=to, wrong=wrong)


def error_page(request: Request, status: int, detail: str) -> HTMLResponse:
    """What a browser gets in place of a problem document: the login page where a key is missing."""
    if status == HTTPStatus.UNAUTHORIZED:
        return login_page(request, request.url.path, status=status)
    return render(request, "error.html", status=status, title=HTTPStatus(status).phrase, detail=detail)
