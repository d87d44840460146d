"""Threads for work that blocks, each kind of work on a stated number of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """So many threads. What finds none free waits its turn, and holds nothing that others need meanwhile."""

    def __init__(self, number: int) -> None:
        self._limiter = CapacityLimiter(number)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns. Cancelled before it began, it never begins; once begun it is waited for."""
        return await to_thread.run_sync(partial(work, *args, **kwargs), limiter=self._limiter)
