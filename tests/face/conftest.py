"""What the tests of the Python face share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty EMPLACE_HOME of the test's own."""
    monkeypatch.setenv("EMPLACE_HOME", str(tmp_path))
