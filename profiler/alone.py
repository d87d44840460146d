"""A lock file, so that one process at a time does something."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emplace.placement.errors import ToolError


@contextmanager
def alone(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file at `path`, which is made here and removed on the way out.

    The kernel lets go of it when the process ends, however that happens. Raises ToolError, saying `busy`, when another process
    holds it.
    """
    with path.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(busy) from None
        if not _is_at(lock.fileno(), path):
            raise ToolError(busy)  # the other one has just ended, and removed the file between our opening and locking it
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
