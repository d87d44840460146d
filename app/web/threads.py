"""Threads for work that blocks, each kind of work on a stated number of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, move_on_after, to_thread

from emplace.app.web.turns import Turns

P = ParamSpec("P")
T = TypeVar("T")


class NoThreadFree(Exception):
    """None became free in time."""


class Threads:
    """So many threads. What finds none free waits its turn, by when its request came, and holds nothing that others need meanwhile."""

    def __init__(self, number: int, patience_s: float = math.inf) -> None:
        """`patience_s` is how long the wait for a thread may be, not the work on it."""
        self._turns = Turns(number)
        self._limiter = CapacityLimiter(number)  # anyio's own would be one for all kinds of work
        self._patience_s = patience_s

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns. Cancelled before it began, it never begins; once begun it is waited for. Raises NoThreadFree."""
        with move_on_after(self._patience_s):  # to_thread shields what has begun
            async with self._turns.taken():
                return await to_thread.run_sync(partial(work, *args, **kwargs), limiter=self._limiter)
        raise NoThreadFree
