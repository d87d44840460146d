"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from emplace.placement.errors import ToolError

_ERRORS = "backslashreplace"
"""The name of a file, which a report says, can be no text; JSON reads the escape as what it stands for."""


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file for a user: as `write_whole` does, and straight into a pipe or a device. Raises ToolError."""
    try:
        if _is_stream(path):
            path.write_bytes(_encoded(content))
        else:
            write_whole(path, content)
    except OSError as error:
        raise _unwritable(path, error) from None


def refuse_unwritable(path: Path) -> None:
    """Raises ToolError for a path that `write_file` can't write to. Nothing is left there, and no folder is made yet."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_stream(path):
            return
        folders = Path(os.path.realpath(path)).parents
        tempfile.TemporaryFile(dir=next(folder for folder in folders if folder.exists())).close()
    except OSError as error:
        raise _unwritable(path, error) from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace the file at `path`, through a symlink, so that a reader sees all of `content` or what was there before; folders are made,
    and permissions stay as they were.

    Raises OSError, and leaves nothing behind then.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".emplace-{token_hex(8)}")
    with temporary.open("xb") as file:
        try:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(_encoded(content))
            file.close()
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _encoded(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", errors=_ERRORS)


def _unwritable(path: Path, error: OSError) -> ToolError:
    return ToolError(f"{path}: can't be written: {error.strerror}")


def _is_stream(path: Path) -> bool:
    """Whether something is there that is no regular file. Raises OSError where that can't be told."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
