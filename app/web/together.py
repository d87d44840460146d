"""Equal questions that wait at the same time are looked up once, as when a team has the same plan open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

Begin = Callable[[], None]
"""To be called right before the look, on whatever thread."""


class Together:
    """Nobody is told what was looked up before they asked: a look is shared until it begins."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}

    async def ask(self, question: Hashable, look: Callable[[Begin], Coroutine[Any, Any, T]]) -> T:
        """What `look` returns or raises. It goes on without whoever leaves."""
        task: asyncio.Task[T] | None = self._waiting.get(question)
        if task is None:
            task = self._waiting[question] = asyncio.create_task(look(lambda: self._close(question)))
            task.add_done_callback(self._ended(question))
        return await asyncio.shield(task)

    def _close(self, question: Hashable) -> None:
        self._waiting.pop(question, None)

    def _ended(self, question: Hashable) -> Callable[[asyncio.Task[Any]], None]:
        def ended(task: asyncio.Task[Any]) -> None:
            if self._waiting.get(question) is task:  # it ended before it began
                self._close(question)
            if not task.cancelled():
                task.exception()  # is told to whoever still waits, and is no error where nobody does

        return ended
