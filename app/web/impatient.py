"""Connections that send too slowly are closed: half a request must not keep one open."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, for which the headers of a request have to arrive within `patience_s` of their first byte.

    On a new connection they have to be there so long after its beginning. uvicorn itself closes those that are idle between requests.
    """

    patience_s: ClassVar[float]
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._mind_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._mind_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.trailing_data[0]:  # the next request has begun already
            self._mind_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _mind_headers(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.patience_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def impatient(patience_s: float) -> type[H11Protocol]:
    """The protocol with this patience: uvicorn makes one of it for each connection."""
    return type("OfThisPatience", (ImpatientProtocol,), {"patience_s": patience_s})
