"""One discovery of this machine for all executor tests."""

from __future__ import annotations

import pytest

from placement.host import HostSpec
from profiler.discover import discover_host


@pytest.fixture(scope="session")
def here() -> HostSpec:
    return discover_host()
