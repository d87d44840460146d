"""Idempotency-Key: a request that is sent again under its key gets the resource that the first one made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Header
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from emplace.app.database.tables import IdempotencyRow
from emplace.app.web.problems import Refused
from emplace.placement.errors import BrokenRule

IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=255, description="a second request with the same key gets what the first one made")
]


def once(session: Session, key: str | None, route: str, body: dict[str, Any], make: Callable[[], str]) -> str:
    """The id that `make` returned for the first request with this key, by making it now if this is the first.

    The key counts for one route. Raises Refused when it was used for another body.
    """
    if key is None:
        return make()
    full_key, digest = f"{route} {key}", _digest(body)
    earlier = session.get(IdempotencyRow, full_key)
    if earlier is None:
        try:
            with session.begin_nested():
                resource_id = make()
                session.add(IdempotencyRow(key=full_key, request_digest=digest, resource_id=resource_id))
            return resource_id
        except IntegrityError:
            earlier = session.get(IdempotencyRow, full_key)
            if earlier is None:
                raise
            # Another request with this key was faster: what this one made is undone.
    if earlier.request_digest != digest:
        broken = BrokenRule("/idempotency-key", key, "was used for another request body; use a new key")
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(broken), [broken], "header")
    return earlier.resource_id


def _digest(body: dict[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
