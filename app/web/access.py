"""Who may ask for what: by an API key, in a header or in the cookie that the login page sets; or everyone, where nobody is asked."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import Request

from emplace.app.database import keys
from emplace.app.database.keys import AccessScope
from emplace.app.web.problems import Refused
from emplace.app.web.service import Service

COOKIE = "emplace_key"
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_FRESH_S = 5.0
"""A key that was found is not looked up again for so long; one that is revoked counts so long at most."""
_MAX_FOUND = 1000
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="emplace"'}


class KnownKeys:
    """What keys may do, as the database had it a moment ago. Keys that are not there are not remembered: anyone could send any number."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._found: dict[str, tuple[AccessScope, float]] = {}

    async def scope_of(self, key: str) -> AccessScope | None:
        """None for one that counts no more or never did."""
        digest, at = keys.digest_of(key), time.monotonic()
        scope, until = self._found.get(digest, (None, 0.0))
        if at < until:
            return scope
        scope = await self._service.read(keys.scope_of, digest)
        if scope is not None:
            if len(self._found) >= _MAX_FOUND:
                self._found.clear()
            self._found[digest] = scope, at + _FRESH_S
        return scope


async def let_in(request: Request) -> None:
    """A dependency of every route that shows or changes something: reading takes `read`, all else `plan` at least. Raises Refused."""
    request.state.scope = AccessScope.ADMIN
    known: KnownKeys | None = request.app.state.keys
    if known is None:
        return
    key = _key_of(request)
    if key is None:
        raise Refused(HTTPStatus.UNAUTHORIZED, "an API key is needed: Authorization: Bearer KEY", headers=_CHALLENGE)
    scope = await known.scope_of(key)
    if scope is None:
        raise Refused(HTTPStatus.UNAUTHORIZED, "the API key is not known, or was revoked", headers=_CHALLENGE)
    request.state.scope = scope
    demand(request, AccessScope.READ if request.method in _SAFE_METHODS else AccessScope.PLAN)


def needs(scope: AccessScope) -> Callable[[Request], Awaitable[None]]:
    """A dependency of routes that take more than `let_in` asks for."""

    async def dependency(request: Request) -> None:
        demand(request, scope)

    return dependency


def demand(request: Request, scope: AccessScope) -> None:
    """Raises Refused when whoever asks may not do what takes `scope`."""
    has: AccessScope = request.state.scope
    if not has.covers(scope):
        raise Refused(HTTPStatus.FORBIDDEN, f"this takes a key of scope {scope}; yours has {has}")


def is_asked(request: Request) -> bool:
    """Whether this service asks for keys at all."""
    return request.app.state.keys is not None


def _key_of(request: Request) -> str | None:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and key.strip():
        return key.strip()
    return request.cookies.get(COOKIE)
