"""The reports that the docs show are what the command says."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.app.cli.stored_docs import NAMES, STORED, made


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return made(tmp_path_factory.mktemp("reports"))


def test_the_stored_reports_are_those_of_today(reports: dict[str, str]) -> None:
    """Written anew by python -m tests.app.cli.stored_docs."""
    stored = {path.name: path.read_text() for path in STORED.iterdir()}
    assert set(stored) == set(reports) == {f"{name}.{ending}" for name in ("passing", "failing") for ending in (*NAMES.values(), "80.txt")}
    for name, text in reports.items():
        assert text == stored[name], name


@pytest.mark.parametrize(("file", "columns"), [("passing.txt", 120), ("failing.txt", 120), ("passing.80.txt", 80), ("failing.80.txt", 80)])
def test_text_keeps_to_the_terminal(file: str, columns: int) -> None:
    assert max(map(len, (STORED / file).read_text().splitlines())) <= columns


def test_the_stored_reports_say_yes_and_no() -> None:
    assert json.loads((STORED / "passing.json").read_text())["fits"] is True
    assert json.loads((STORED / "failing.json").read_text())["fits"] is False
    failures = [ElementTree.parse(STORED / f"{name}.xml").getroot()[0].get("failures") for name in ("passing", "failing")]
    assert failures == ["0", "1"]
    assert json.loads((STORED / "failing.sarif").read_text())["runs"][0]["results"][0]["fixes"]
