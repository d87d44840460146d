"""Checks are solved while their clients wait: a few at once, a few more in a queue, and the rest are asked to come again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

from anyio import CancelScope

from emplace.app.jobs.child_errors import ChildStopped
from emplace.app.web.problems import ask_later
from emplace.app.web.threads import Threads

T = TypeVar("T")

_POLL_SECONDS = 0.2


class CheckQueue:
    """Threads of its own: other requests neither wait for checks nor take their place."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._threads = Threads(at_once)
        self._room = at_once + waiting
        self._inside = 0

    async def run(self, work: Callable[[Callable[[], bool]], T], is_over: Callable[[], Awaitable[bool]]) -> T:
        """`work(should_stop)` on a thread, once one is free. When `is_over` says so, it leaves the queue or is stopped.

        Raises Refused where the queue is full, ChildStopped.
        """
        if self._inside >= self._room:
            raise ask_later(HTTPStatus.TOO_MANY_REQUESTS, f"{self._inside} checks are being solved or wait already; ask again")
        self._inside += 1
        stop = threading.Event()
        with CancelScope() as waiting:
            watch = asyncio.create_task(_watch(is_over, stop, waiting))
            try:
                return await self._threads.run(work, stop.is_set)
            finally:
                self._inside -= 1
                watch.cancel()
                stop.set()
        raise ChildStopped


async def _watch(is_over: Callable[[], Awaitable[bool]], stop: threading.Event, waiting: CancelScope) -> None:
    while not await is_over():
        await asyncio.sleep(_POLL_SECONDS)
    stop.set()
    waiting.cancel()
