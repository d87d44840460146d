"""Waiting to be told to stop."""

from __future__ import annotations

import signal
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Self


class StopSignal:
    """SIGTERM and SIGINT, for the time of a `with` block in the main thread, where they are also waited for.

    A signal's handler runs in the main thread wherever that is, also inside `wait`: it must not take a lock that `wait` may hold.
    A threading.Event has such a lock, and now and then a process would hang in it for ever; a SimpleQueue has none.
    """

    def __init__(self) -> None:
        self._came: SimpleQueue[int] = SimpleQueue()

    def __enter__(self) -> Self:
        self._before = {kind: signal.signal(kind, self._note) for kind in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, timeout_s: float) -> bool:
        """Whether a signal has come; waits for one at most so long."""
        try:
            self._came.put(self._came.get(timeout=timeout_s))
        except Empty:
            return False
        return True

    def _note(self, kind: int, _: FrameType | None) -> None:
        self._came.put(kind)
