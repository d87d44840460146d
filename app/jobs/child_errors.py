"""How a child process ends without a result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ChildFailed(Exception):
    """The child ended without a result. `problems` are the broken rules of its input, if that was the reason."""

    message: str
    problems: list[dict[str, Any]] = field(default_factory=list)
    took_too_long: bool = False

    def __str__(self) -> str:
        return self.message


class ChildLost(ChildFailed):
    """The warm process ended, and with it the child: that says nothing of the child's work, which may be done again."""


class ChildStopped(Exception):
    """`should_stop` said so, and the child and its process group are gone."""
