"""Compiled functions, kept on disk between processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile with numba; releases the interpreter lock; cached beside the source, or where the user can write."""
    # Without numba's run time nothing can be allocated inside, and nothing is counted: counting references to the
    # arrays of a named tuple took half of the search's time.
    options: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
    try:
        return cast(Function, numba.njit(**options)(function))
    except RuntimeError:  # numba found no directory that it may write to
        numba.config.CACHE_DIR = str(_own_directory())  # type: ignore[attr-defined]
        return cast(Function, numba.njit(**options)(function))


def _own_directory() -> Path:
    """A private directory for this user; others must not be able to plant code in it."""
    directory = Path(tempfile.gettempdir()) / f"emplace-numba-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid == os.getuid() and not status.st_mode & 0o077 and directory.is_dir() and not directory.is_symlink():
        return directory
    return Path(tempfile.mkdtemp(prefix="emplace-numba-"))
