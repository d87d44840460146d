"""A place for what torchrun leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For torchrun as users start it, which leaves its folder of logs behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
