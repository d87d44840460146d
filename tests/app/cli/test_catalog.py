from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.app.cli.command import Emplace

MODELS = {
    "m1",
    "m2",
    "m3",
    "criteo-kaggle",
    "criteo-terabyte",
    "dlrm-dcnv2",
    "dlrmv4",
    "rm1",
    "rm2",
    "rm3",
    "ncf",
    "wnd",
    "mtwnd",
    "din",
    "dien",
}
HOSTS = {"cpu-dual-socket", "big-basin-16g", "big-basin-32g", "zion", "dgx-a100-40g", "dgx-a100-80g", "dgx-h100", "local"}


@pytest.mark.parametrize(("command", "names"), [("models", MODELS), ("hosts", HOSTS)])
def test_the_list_is_for_people_and_for_scripts(emplace_here: Emplace, command: str, names: set[str]) -> None:
    listed = json.loads(emplace_here(command, "--format", "json").stdout)
    assert {entry["name"] for entry in listed} >= names
    text = emplace_here(command)
    assert text.returncode == 0
    assert all(name in text.stdout for name in names)
    assert "\x1b" not in text.stdout


def test_a_printed_model_can_be_passed_back(emplace_here: Emplace, tmp_path: Path) -> None:
    printed = emplace_here("models", "ncf")
    (tmp_path / "mine.yaml").write_text(printed.stdout)
    assert yaml.safe_load(printed.stdout) == json.loads(emplace_here("models", "ncf", "--format", "json").stdout)
    built_in, edited = (
        emplace_here("plan", "ncf", "--host", "dgx-h100", "--format", "json"),
        emplace_here("plan", "mine.yaml", "--host", "dgx-h100", "--format", "json"),
    )
    assert json.loads(built_in.stdout)["model"]["digest"] == json.loads(edited.stdout)["model"]["digest"]


def test_a_printed_host_can_be_passed_back(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(emplace_here("hosts", "big-basin-16g").stdout)
    done = emplace_here("check", "ncf", "--host", "mine.yaml", "--format", "json")
    assert json.loads(done.stdout)["checks"][0]["host"] == "big-basin-16g"


def test_local_is_this_machine(emplace_here: Emplace) -> None:
    host = json.loads(emplace_here("hosts", "local", "--format", "json").stdout)
    assert host["name"] == "local"
    assert host["fingerprint"]


def test_an_unknown_name_lists_the_known_ones(emplace_here: Emplace) -> None:
    done = emplace_here("models", "m4")
    assert done.returncode == 2
    assert "m4" in done.stderr
    assert "m3" in done.stderr
