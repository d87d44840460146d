"""Connections that send too slowly are closed: half a request must not keep one open."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(patience_s: float) -> type[H11Protocol]:
    """uvicorn's protocol, for which the headers of a request have to arrive within `patience_s` of their first byte.

    On a new connection they have to be there so long after its beginning. uvicorn itself closes those that are idle between requests.
    """

    class Impatient(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._mind_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._mind_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _mind_headers(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_timer()
            elif self._timer is None:
                self._timer = self.loop.call_later(patience_s, self.transport.close)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Impatient
