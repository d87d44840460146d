"""Who waits is let in by when its request came, not by when it began to wait.

A request that takes a thread three times would otherwise stand three times at the end of a line, and wait three times as long as others.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

_came: ContextVar[float] = ContextVar("came", default=math.inf)


@contextmanager
def as_came_now() -> Iterator[None]:
    """What waits for a turn in here waits as one that came at this moment."""
    token = _came.set(time.monotonic())
    try:
        yield
    finally:
        _came.reset(token)


class Turns:
    """So many at once."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Within it one turn is taken. Nobody has one who was cancelled while waiting."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (_came.get(), next(self._number), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give_on()
                raise
        try:
            yield
        finally:
            self._give_on()

    def _give_on(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
