"""What waits to be written at the same time is written together: one turn and one transaction for all of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")
T = TypeVar("T")

Close = Callable[[], Sequence[Item]]
"""To be called right before the items are written, on whatever thread: those that the group has. No more join it."""
Write = Callable[[Close[Item]], Coroutine[Any, Any, Sequence[T | Exception]]]
"""Writes the items of a group, and returns for each what came of it."""

_MOST = 50
"""Items of one group: others wait for the database meanwhile."""


@dataclass
class _Group:
    items: list[Any] = field(default_factory=list)
    written: asyncio.Task[Sequence[Any]] | None = None


class Grouped:
    """Items of a kind join its group until that begins to be written; the next ones make another group."""

    def __init__(self) -> None:
        self._gathering: dict[Hashable, _Group] = {}
        self._lock = threading.Lock()

    async def join(self, kind: Hashable, item: Item, write: Write[Item, T]) -> T:
        """What came of the item: returned, or raised where that is an exception. It is written without whoever leaves."""
        with self._lock:
            group = self._gathering.get(kind)
            if group is None or len(group.items) == _MOST:
                group = self._gathering[kind] = _Group()
                group.written = asyncio.create_task(self._write(kind, group, write))
            place = len(group.items)
            group.items.append(item)
        assert group.written is not None
        outcome: T | Exception = (await asyncio.shield(group.written))[place]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _write(self, kind: Hashable, group: _Group, write: Write[Item, T]) -> Sequence[T | Exception]:
        try:
            return await write(lambda: self._close(kind, group))
        finally:
            self._close(kind, group)  # it may have failed before it began

    def _close(self, kind: Hashable, group: _Group) -> Sequence[Any]:
        with self._lock:
            if self._gathering.get(kind) is group:
                del self._gathering[kind]
        return group.items
