"""For every test."""

from __future__ import annotations

import pytest
from hypothesis import settings

from emplace.hardware.discover import discover_host
from emplace.placement.host import HostSpec

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
"""Property tests draw the same examples every time."""


@pytest.fixture(autouse=True)
def nothing_was_measured(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the person who runs the tests has measured on this machine prices none of their plans."""
    monkeypatch.setenv("EMPLACE_HOME", str(tmp_path_factory.getbasetemp() / "home-of-nobody"))


@pytest.fixture(scope="session")
def here() -> HostSpec:
    """This machine, discovered once."""
    return discover_host()
