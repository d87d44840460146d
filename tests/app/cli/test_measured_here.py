"""Plans that are priced by what was measured on their machine."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.app.cli.command import QUICK, Emplace, write_model
from tests.face.machines import machine, measured

FINGERPRINT = "sha256:ab"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Path:
    """Where a measured cost model is kept, beside the documents of its machine and a model."""
    host = machine(FINGERPRINT).to_data()
    (tmp_path / "host.json").write_text(json.dumps(host))
    write_model(tmp_path / "small.json")
    folder = tmp_path / "home" / "cost-models"
    folder.mkdir(parents=True)
    return folder


def _plan(emplace_here: Emplace) -> str:
    done = emplace_here("plan", "small.json", "--host", "host.json", "--ranks", "2", *QUICK)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize(("software", "told"), [({"numpy": "1.0", "of old": "2"}, True), ({"numpy": version("numpy")}, False), ({}, False)])
def test_other_software_than_it_was_measured_with_is_told(emplace_here: Emplace, kept: Path, software: dict[str, str], told: bool) -> None:
    model = measured(FINGERPRINT, 2).model_copy(update={"software": software})
    (kept / "sha256-ab-r2.json").write_text(model.canonical_json())
    said = f", with numpy 1.0 ({version('numpy')} is installed here): measure again ('emplace profile')"
    shown = _plan(emplace_here)
    assert "measured on this host" in shown
    assert (said in shown) is told
    assert "of old" not in shown


def test_a_symlink_that_leads_nowhere_is_no_cost_model(emplace_here: Emplace, kept: Path) -> None:
    (kept / "sha256-ab-r2.json").symlink_to("nowhere.json")
    assert "nothing measured on this host" in _plan(emplace_here)
