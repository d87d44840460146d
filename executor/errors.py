"""What can go wrong while a plan is executed; placement.errors draws the whole tree."""

from __future__ import annotations

from emplace.placement.errors import EmplaceError, ToolError


class NotRunnableHere(ToolError):
    """The plan is fine, but not for this machine."""


class ExecutionFailed(EmplaceError):
    """The run ended early. The message is the root cause: rank, signal or error."""

    def __init__(self, message: str, rank: int | None = None) -> None:
        self.rank = rank
        super().__init__(message)


class ExecutionCancelled(ExecutionFailed):
    """Someone asked it to stop."""
