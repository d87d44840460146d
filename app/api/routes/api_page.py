"""The API as OpenAPI describes it, for programs."""

from __future__ import annotations

import json
import threading
from functools import lru_cache
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response

from emplace.app.api.conditional import conditions_of, document, tag_of, unchanged
from emplace.app.api.openapi import described
from emplace.app.web.dependencies import TheService

router = APIRouter()
_writing = threading.Lock()


class _Page(NamedTuple):
    text: str
    tag: str


@router.get("/openapi.json", include_in_schema=False)
async def openapi_page(request: Request, service: TheService) -> Response:
    if request.app.openapi_schema is None:  # it takes half a second, in which the loop would answer nobody
        await service.documents.run(_write, request.app)
    page, conditions = _page(request.app), conditions_of(request)
    return unchanged(page.tag) if conditions.knows(page.tag) else document(conditions, page.tag, lambda: page.text)


def _write(app: FastAPI) -> None:
    with _writing:
        _page(app)


@lru_cache(maxsize=1)
def _page(app: FastAPI) -> _Page:
    """Written once: it is large, and the same for as long as the service runs."""
    text = json.dumps(described(app))
    return _Page(text, tag_of("openapi", text))
