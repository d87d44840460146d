"""A rank of a profile whose disk is full when it has measured."""

from __future__ import annotations

import errno
import os
from unittest.mock import patch

from emplace.profiler.measure import rank


def main() -> None:
    with patch.object(rank, "read_file", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))):
        rank.main()
