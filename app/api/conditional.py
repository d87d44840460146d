"""Answers that a client may keep: an ETag says which state of a resource it has, and If-None-Match asks for news of that only."""

from __future__ import annotations

import hashlib
import re
from http import HTTPStatus

from fastapi import Request, Response

_TAG = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"')
_KEPT = {"Cache-Control": "private, no-cache"}
"""Kept by whoever asked, and asked about each time."""


def tag_of(*parts: object) -> str:
    """An entity tag of what an answer is made of. It is weak: the answer may be packed."""
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


def is_known(request: Request, tag: str) -> bool:
    """Whether the client has this state already (RFC 9110, 13.1.2)."""
    asked = request.headers.get("if-none-match", "")
    return asked.strip() == "*" or _TAG.findall(tag)[0] in _TAG.findall(asked)


def unchanged(tag: str) -> Response:
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag} | _KEPT)


def document(text: str, tag: str) -> Response:
    return Response(text, headers={"ETag": tag} | _KEPT, media_type="application/json")
