"""What the service reads from the environment. docs/how-to/operate.md lists the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from emplace.local_store import emplace_home
from emplace.placement.errors import ToolError


@dataclass(frozen=True)
class Settings:
    """`EMPLACE_` and the field's name in capitals is the variable that sets it."""

    home: Path
    database_url: str
    worker_lease_seconds: float = 15.0
    """A worker that has not been heard of for so long is dead, and others take over its jobs."""
    run_timeout_seconds: float = 1800.0
    """A run or a profile that takes longer is ended."""
    check_concurrency: int = 2
    """Checks that are solved at once; more wait for their turn."""

    @classmethod
    def from_environment(cls) -> Self:
        """Raises ToolError for a value that is no positive number."""
        home = emplace_home()
        return cls(
            home=home,
            database_url=os.environ.get("EMPLACE_DATABASE_URL") or f"sqlite:///{home / 'emplace.db'}",
            worker_lease_seconds=_positive("EMPLACE_WORKER_LEASE_SECONDS", cls.worker_lease_seconds),
            run_timeout_seconds=_positive("EMPLACE_RUN_TIMEOUT_SECONDS", cls.run_timeout_seconds),
            check_concurrency=int(_positive("EMPLACE_CHECK_CONCURRENCY", cls.check_concurrency)),
        )


def _positive(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = type(default)(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise ToolError(f"{name} must be a positive {'whole number' if isinstance(default, int) else 'number'}, it is {text!r}")
    return value
