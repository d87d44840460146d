"""The life of a job. `TRANSITIONS` is the whole of it: `move` in app/database/jobs.py changes a state, and nothing else does.

    queued ------> running ------> done
      |  ^            |   \\
      |  +------------+    +-----> failed
      |    (put back)      |
      +--------------------+-----> cancelled
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a plan, run or profile is. Nothing follows the last three. An uploaded profile is done from the start."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing can change it any more."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[State, frozenset[State]] = {
    # To itself: the worker that had taken it off its queue ended before it began.
    State.QUEUED: frozenset({State.QUEUED, State.RUNNING, State.CANCELLED}),
    # Back to queued: its worker ended, and the job is another's to repeat.
    State.RUNNING: frozenset({State.QUEUED, State.DONE, State.FAILED, State.CANCELLED}),
    State.DONE: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}
"""The states that may follow each state."""
