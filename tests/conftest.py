"""For every test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def nothing_was_measured(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the person who runs the tests has measured on this machine prices none of their plans."""
    monkeypatch.setenv("EMPLACE_HOME", str(tmp_path_factory.getbasetemp() / "home-of-nobody"))
