"""What browsers are told with every answer, and what is refused of what they send.

Where nobody is asked who they are, a browser of someone who can reach the service is as good as that someone. So pages of
other origins must not act through it (forged requests), nor read through it under a name of their own (DNS rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emplace.app.web.addresses import is_address
from emplace.app.web.problems import problem

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""An answer that sets one of them itself keeps its own: a page has a policy that lets it load its own files."""
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_LOCAL_NAME = "localhost"
_ORIGIN = re.compile(r"https?://(?P<host>.+)")
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s\[\]:/@]+))(:\d+)?")


class ProtectiveHeaders:
    """ASGI middleware, around everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in _RAW_HEADERS if each[0] not in given)]
            await send(message)

        await self._app(scope, receive, protected)


class SameOrigin:
    """ASGI middleware: refuses what another origin's page would do here, and names that are not this service's."""

    def __init__(self, app: ASGIApp, names: Iterable[str], proxied: Iterable[str]) -> None:
        """`names` are those that the service goes by, beside localhost and any address; `proxied` those that it has behind a proxy."""
        self._app = app
        self._proxied = _normal(proxied) - {_LOCAL_NAME}
        self._names = self._proxied | _normal(names) | {_LOCAL_NAME}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> ASGIApp | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            detail = f"the service does not go by the name {host!r}; EMPLACE_ALLOWED_HOSTS lists more names than localhost and addresses"
            return problem(HTTPStatus.MISDIRECTED_REQUEST, detail)
        if method in _SAFE_METHODS:
            return None
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and not self._is_own(origin, host):
            return problem(HTTPStatus.FORBIDDEN, f"a page of {origin} may not change anything here")
        if origin is None and site not in ("same-origin", "none"):
            return problem(HTTPStatus.FORBIDDEN, "a page of another origin may not change anything here")
        return None

    def _is_ours(self, host: str) -> bool:
        """A name may lead anywhere, also here; an address leads where it says. No browser asks without a host."""
        if not host:
            return True
        name = _name_of(host)
        return name is not None and (name in self._names or is_address(name))

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` is this service's: of the host and port that it was asked under, or of a name before a proxy, which
        may rename it."""
        found = _ORIGIN.fullmatch(origin.lower())
        return found is not None and (found["host"] == host.lower() or _name_of(found["host"]) in self._proxied)


def _normal(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in names)


def _name_of(host: str) -> str | None:
    """The name or address in `name:port`; None where it is neither."""
    found = _HOST.fullmatch(host.lower())
    return (found["address"] or found["name"]) if found else None
