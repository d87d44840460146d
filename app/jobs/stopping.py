"""Waiting to be told to stop."""

from __future__ import annotations

import signal
from queue import Empty, SimpleQueue
from types import FrameType


class StopSignal:
    """SIGTERM and SIGINT from now on. To be made and waited for in the main thread.

    A signal's handler runs in the main thread wherever that is, also inside `wait`: it must not take a lock that `wait` may hold.
    A threading.Event has such a lock, and now and then a process would hang in it for ever; a SimpleQueue has none.
    """

    def __init__(self) -> None:
        self._came: SimpleQueue[int] = SimpleQueue()
        for kind in (signal.SIGTERM, signal.SIGINT):
            signal.signal(kind, self._note)

    def wait(self, timeout_s: float) -> bool:
        """Whether a signal has come; waits for one at most so long."""
        try:
            self._came.put(self._came.get(timeout=timeout_s))
        except Empty:
            return False
        return True

    def _note(self, kind: int, _: FrameType | None) -> None:
        self._came.put(kind)
