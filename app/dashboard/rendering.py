"""Views to answers: a page with the policy that lets it load the service's own files and nothing else, or the same as JSON."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property, lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, TypeVar

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Template
from markupsafe import Markup
from pydantic_core import to_jsonable_python
from starlette.templating import Jinja2Templates

from emplace.app.dashboard import tones, units
from emplace.app.dashboard.addresses import with_query
from emplace.app.dashboard.drawing import DRAWINGS
from emplace.app.reports.figures import microseconds, percent, rate
from emplace.app.reports.sweep_text import short
from emplace.placement.units import show_gib

T = TypeVar("T")

_HERE = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # Without a referrer a form's Origin is null, and the service takes changes from its own origin only.
    "Referrer-Policy": "same-origin",
}

_PART = 32_000
"""Characters that are sent together: less than a chart of many ranks, which goes out as soon as it is drawn."""

_PARTS_KEPT = 64
"""Parts of pages that are not drawn again: the largest are 0.3 MB."""

_templates = Jinja2Templates(_HERE / "templates")
_templates.env.filters.update(us=microseconds, percent=percent, rate=rate, short=short, size=show_gib, **DRAWINGS)
_templates.env.globals.update(tones=tones, units=units, with_query=with_query)
_templates.env.trim_blocks = _templates.env.lstrip_blocks = True


def static_files() -> StaticFiles:
    return StaticFiles(directory=_HERE / "static")


class Later(Generic[T]):
    """A part of a view that is made when its page has come so far: what stands above it is sent before."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    @cached_property
    def now(self) -> T:
        return self._make()


def show(request: Request, template: str, view: Any, *, status: int = HTTPStatus.OK) -> Response:
    """The view as a page; its data as JSON where the address says `format=json`."""
    if request.query_params.get("format") == "json":
        return JSONResponse(to_jsonable_python(view, exclude_none=True, inf_nan_mode="null", fallback=_plain), status)
    values = {"request": request, "view": view, "twin": with_query(request, format="json")}
    parts = _in_parts(_templates.env.get_template(template), values)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return StreamingResponse(packed(parts), status, _HEADERS | {"Content-Encoding": "gzip"}, "text/html")
    return StreamingResponse(parts, status, _HEADERS, "text/html")


@lru_cache(maxsize=_PARTS_KEPT)
def _once(template: str, part: Hashable, **values: Hashable) -> Markup:
    """A part of a page that many look at, drawn once for as long as `part` is remembered: of what never changes."""
    return Markup(_templates.env.get_template(template).render(part=part, **values))


_templates.env.globals["once"] = _once


def packed(parts: Iterator[str]) -> Iterator[bytes]:
    """Packed with gzip, each part to its end: a browser draws it while the next is made."""
    packer = zlib.compressobj(level=1, wbits=31)
    for part in parts:
        yield packer.compress(part.encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, Later):
        return value.now
    raise TypeError(f"{type(value).__name__} has no JSON")


def _in_parts(page: Template, values: dict[str, Any]) -> Iterator[str]:
    """The page as it is made; small parts are sent together."""
    kept, size = [], 0
    for piece in page.generate(values):
        kept.append(piece)
        size += len(piece)
        if size >= _PART:
            yield "".join(kept)
            kept, size = [], 0
    yield "".join(kept)


def render(request: Request, template: str, *, status: int = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    return _templates.TemplateResponse(request, template, values, status, headers=_HEADERS)


def login_page(request: Request, to: str, wrong: str = "", status: int = HTTPStatus.OK) -> HTMLResponse:
    """It leads on to the path `to`; `wrong` says what was wrong with the key."""
    return render(request, "login.html", status=status, to=to, wrong=wrong)


def error_page(request: Request, status: int, detail: str) -> HTMLResponse:
    """What a browser gets in place of a problem document: the login page where a key is missing."""
    if status == HTTPStatus.UNAUTHORIZED:
        return _login_first(request)
    return render(request, "error.html", status=status, title=HTTPStatus(status).phrase, detail=detail)


def _login_first(request: Request) -> HTMLResponse:
    """It leads back to what was asked for; of a form that nobody was let in to send, to the page that it is on."""
    if request.method in ("GET", "HEAD"):
        return login_page(request, with_query(request), status=HTTPStatus.UNAUTHORIZED)
    host, _, page = request.headers.get("referer", "").partition("://")[2].partition("/")
    to = f"/{page}" if host == request.url.netloc else "/"
    return login_page(request, to, "Nothing was done: your session has ended. Log in, then do it again.", HTTPStatus.UNAUTHORIZED)
