"""A rank of a profile whose disk is full when it has measured."""

from __future__ import annotations

import errno
import os
from typing import Any, NoReturn

from emplace.profiler.measure import rank


def _full(*_: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def main() -> None:
    rank.read_file = _full
    rank.main()
