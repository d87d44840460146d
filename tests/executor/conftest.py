"""What executor tests share: one discovery of this machine, and a place for what torchrun leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from emplace.hardware.discover import discover_host
from emplace.placement.host import HostSpec


@pytest.fixture(scope="session")
def here() -> HostSpec:
    return discover_host()


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For torchrun as users start it, which leaves its folder of logs behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
