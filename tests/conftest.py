"""For every test."""

from __future__ import annotations

import gc
import os
import re
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from emplace.hardware.discover import discover_host
from emplace.placement.host import HostSpec

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
"""Property tests draw the same examples every time."""

HAS_TORCH = find_spec("torch") is not None
IMPORTS_TORCH = re.compile(r"^(import|from) (torch|torchrec|fbgemm_gpu)\b", re.MULTILINE)
REASON = "torch is not installed"


def pytest_configure() -> None:
    """Ctrl-C works as in the foreground, here and in programs started from here: in a background job it is ignored from the start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests share the cores: a thread of torch that waits for another one is to sleep, here and in programs started from here.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    gc.disable()  # until all tests are collected


def pytest_collection_finish() -> None:
    """What was imported and collected stays, a million objects: it is never looked through for garbage."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def nothing_was_measured(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the person who runs the tests has measured on this machine prices none of their plans."""
    monkeypatch.setenv("EMPLACE_HOME", str(tmp_path_factory.getbasetemp() / "home-of-nobody"))


@pytest.fixture(scope="session")
def here() -> HostSpec:
    """This machine, discovered once."""
    return discover_host()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch") and not HAS_TORCH:
        pytest.skip(REASON)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Without torch, a file that is marked as a whole is not imported: it would import torch. With torch, a file that lacks the mark fails."""
    text = module_path.read_text()
    marked = "\npytestmark = pytest.mark.torch\n" in text
    if IMPORTS_TORCH.search(text) and not marked:
        raise pytest.UsageError(
            f"{module_path} imports torch, which is not on every Python that tests run on: say pytestmark = pytest.mark.torch"
        )
    if HAS_TORCH or not marked:
        return None
    return SkippedModule.from_parent(parent, path=module_path)


class SkippedModule(pytest.Module):
    def collect(self) -> list[pytest.Item]:
        pytest.skip(REASON, allow_module_level=True)
