"""Temporary folders that don't outlive their use for good: what a killed process could not remove, the next one does.

Every process that uses a folder holds a shared lock on a file in it. The kernel lets go of it when the process ends, however that
happens, and no other process can be taken for it, as could be with a number.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "emplace-"
_LOCK = ".in-use"


@contextmanager
def temporary_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """`emplace-<purpose>-...`, removed on the way out, under `parent` or else where the system keeps temporary files.

    Leftovers there are removed first. Raises OSError.
    """
    parent = parent or Path(tempfile.gettempdir())
    remove_leftovers(parent)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{purpose}-", dir=parent) as name:
        fresh = Path(name, ".new")
        with fresh.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            fresh.rename(fresh.with_name(_LOCK))  # found by remove_leftovers only now that it is locked
            yield Path(name)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep another process's temporary folder from being removed as a leftover, should that process end first."""
    with (folder / _LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def remove_leftovers(parent: Path) -> None:
    """Remove the temporary folders under `parent` that no process uses any more."""
    for path in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), path.open("rb") as lock:  # locked by a process that uses it, or another one's to remove
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent)
