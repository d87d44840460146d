"""A place for what torchrun leaves behind, and stages that are timed in fewer steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def few_staged_steps() -> Iterator[None]:
    """All stages are in each of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emplace.executor.run.STAGED_STEPS", 2)
        yield


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For torchrun as users start it, which leaves its folder of logs behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
