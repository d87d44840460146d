"""Connections that send too slowly are closed: half a request must not keep one open."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 2**16
_TOO_LONG = f"The headers are longer than {MAX_HEADER_BYTES} bytes."


class ImpatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, for which the headers of a request have to arrive within `patience_s` of their first byte, and be bounded.

    On a new connection they have to be there so long after its beginning. uvicorn itself closes those that are idle between requests.
    """

    patience_s: ClassVar[float]
    _timer: asyncio.TimerHandle | None = None
    _header_bytes = 0
    """How many bytes have come of headers that are not complete."""
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if not self._in_body:
            self._start_timer()
            self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        self._start_timer()  # of a request that begins in the bytes that another one ends in
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._header_bytes, self._in_body = 0, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.patience_s, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._start_timer()  # an answer is on its way: the request behind it may be late
        else:
            self.transport.close()


def impatient(patience_s: float) -> type[HttpToolsProtocol]:
    """The protocol with this patience: uvicorn makes one of it for each connection."""
    return type("OfThisPatience", (ImpatientProtocol,), {"patience_s": patience_s})
