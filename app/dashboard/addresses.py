"""Addresses of views: every view is one, and a change of what it shows is another."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import Request


def with_query(request: Request, **changes: object) -> str:
    """This address with other parameters; one that is empty or None is left out."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in changes]
    pairs = [*kept, *((name, str(value)) for name, value in changes.items() if value not in (None, ""))]
    return f"{request.url.path}?{urlencode(pairs)}" if pairs else request.url.path
