"""Answers that are packed with gzip for who takes that."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Message, Receive, Scope, Send

_REFUSED = re.compile(r"q\s*=\s*0(\.0*)?")


class Packed(GZipMiddleware):
    """ASGI middleware: beside packing, it tells the routes `Accept-Encoding: gzip` or nothing, and says of each answer that it depends on
    that: also of those that routes pack themselves, and of 304."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def varying(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Vary"] = "Accept-Encoding"
            await send(message)

        if scope["type"] == "http":
            others = [each for each in scope["headers"] if each[0] != b"accept-encoding"]
            accepted = ",".join(Headers(scope=scope).getlist("accept-encoding"))
            # In place: what the router adds to it is read outside.
            scope["headers"] = [*others, (b"accept-encoding", b"gzip")] if takes_gzip(accepted) else others
        await super().__call__(scope, receive, varying)


def takes_gzip(accepted: str) -> bool:
    """Whether gzip is one of the encodings of an Accept-Encoding, in any case, and not with a weight of nothing."""
    codings = (each.lower().partition(";") for each in accepted.split(","))
    return any(name.strip() == "gzip" and not _REFUSED.fullmatch(weight.strip()) for name, _, weight in codings)
