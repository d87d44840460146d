"""The reports that other programs read: valid by those programs' rules, on the line that is to blame, the same finding recognised again."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.app.cli.command import Emplace

HOST = ("--host", "dgx-h100", "--ranks", "2", "--tiers", "hbm")
SPEC = """\
schema_version: 1
name: big
local_batch_size: 512
dense_features: 13
bottom_mlp: [64]
top_mlp: [64, 1]
interaction: dot
tables:
  - {name: users, num_embeddings: 1000, embedding_dim: 64, features: [{name: user, length: {fixed: 1}}]}
  - {name: pages, num_embeddings: 1000000000, embedding_dim: 64, features: [{name: page, length: {fixed: 1}}]}
"""
BROKEN = SPEC.replace("embedding_dim: 64", "embedding_dim: 63")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "big.yaml").write_text(SPEC)
    (tmp_path / "broken.yaml").write_text(BROKEN)
    return tmp_path


def sarif_results(emplace_here: Emplace, model: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads(emplace_here("check", model, *HOST, "--format", "sarif").stdout)["runs"][0]["results"]
    return results


def line_of(result: dict[str, Any]) -> int:
    line: int = result["locations"][0]["physicalLocation"]["region"]["startLine"]
    return line


@pytest.mark.usefixtures("folder")
def test_sarif_points_at_the_line(emplace_here: Emplace) -> None:
    (too_large,) = sarif_results(emplace_here, "big.yaml")
    assert line_of(too_large) == 10  # the largest table
    broken = sarif_results(emplace_here, "broken.yaml")
    assert [line_of(result) for result in broken] == [9, 10]
    assert broken[1]["message"]["text"] == "/tables/1/embedding_dim: must be a multiple of 4 (got 63), in tables[pages]"


def test_a_finding_is_recognised_wherever_it_has_moved(emplace_here: Emplace, folder: Path) -> None:
    before = [result["partialFingerprints"] for model in ("big.yaml", "broken.yaml") for result in sarif_results(emplace_here, model)]
    (folder / "big.yaml").write_text("# moved\n" + SPEC.replace("1000000000", "1500000000"))
    (folder / "broken.yaml").write_text("# moved\n\n" + BROKEN.replace("63", "62"))
    after = [result["partialFingerprints"] for model in ("./big.yaml", "broken.yaml") for result in sarif_results(emplace_here, model)]
    assert before == after
    assert len({each["primaryLocationLineHash"] for each in before}) == len(before) == 3


@pytest.mark.usefixtures("folder")
def test_gitlab_has_what_a_code_quality_report_needs(emplace_here: Emplace, tmp_path: Path) -> None:
    done = emplace_here("check", tmp_path / "broken.yaml", *HOST, "--format", "gitlab")
    entries = json.loads(done.stdout)
    assert done.returncode == 2
    assert [(each["location"], each["severity"]) for each in entries] == [
        ({"path": "broken.yaml", "lines": {"begin": line}}, "critical") for line in (9, 10)
    ]
    assert all(each["check_name"] == "emplace-bad-input" and each["description"] for each in entries)
    assert len({each["fingerprint"] for each in entries}) == 2
    assert emplace_here("check", "ncf", "--host", "dgx-h100", "--format", "gitlab").stdout == "[]\n"


@pytest.mark.usefixtures("folder")
def test_github_annotates_the_line(emplace_here: Emplace) -> None:
    lines = emplace_here("check", "broken.yaml", *HOST, "--format", "github").stdout.splitlines()
    assert [line.partition(",title=")[0] for line in lines] == ["::error file=broken.yaml,line=9", "::error file=broken.yaml,line=10"]


@pytest.mark.usefixtures("folder")
def test_the_json_report_names_each_problem(emplace_here: Emplace) -> None:
    report = json.loads(emplace_here("check", "broken.yaml", *HOST, "--format", "json").stdout)
    (refused,) = report["refused"]
    assert [(each["line"], each["pointer"]) for each in refused["problems"]] == [
        (9, "/tables/0/embedding_dim"),
        (10, "/tables/1/embedding_dim"),
    ]


def test_a_markdown_report_begins_with_the_same_hidden_line(emplace_here: Emplace, folder: Path) -> None:
    (folder / "fits.yaml").write_text(SPEC.replace("1000000000", "1000"))
    reports = [emplace_here("check", model, *HOST, "--format", "markdown").stdout for model in ("big.yaml", "broken.yaml", "fits.yaml")]
    assert {report.splitlines()[0] for report in reports} == {"<!-- emplace check -->"}


@pytest.mark.usefixtures("folder")
def test_a_rule_that_only_the_question_breaks_is_shown_in_the_file(emplace_here: Emplace, folder: Path) -> None:
    (folder / "vast.yaml").write_text(
        SPEC.replace("1000000000, embedding_dim: 64", "1000000000000, embedding_dim: 65536").replace("dot", "cat")
    )
    for command in ("check", "plan"):
        done = emplace_here(command, "vast.yaml", "--host", "dgx-h100")
        assert done.returncode == 2
        assert "vast.yaml:8: /tables: must come to at most 2^62 bytes" in done.stderr


# Ant's JUnit.xsd, as Windy Road wrote it down: the attributes that must be there, the order of elements, and nothing on the root.
SUITE = {"id", "name", "package", "timestamp", "hostname", "tests", "failures", "errors", "time"}
NUMBER = r"\d+(\.\d+)?"


@pytest.mark.parametrize("model", ["big.yaml", "broken.yaml", "ncf"])
@pytest.mark.usefixtures("folder")
def test_junit_keeps_the_rules_of_ants_schema(emplace_here: Emplace, model: str) -> None:
    root = ElementTree.fromstring(emplace_here("check", model, *HOST, "--format", "junit").stdout)
    (suite,) = root
    assert (root.tag, root.attrib, suite.tag) == ("testsuites", {}, "testsuite")
    assert set(suite.attrib) - {"skipped"} == SUITE
    assert all(suite.get(name) for name in SUITE)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
    assert [child.tag for child in suite] == ["properties", "testcase", "system-out", "system-err"]
    (case,) = suite.iter("testcase")
    assert set(case.attrib) == {"name", "classname", "time"}
    assert all(re.fullmatch(NUMBER, each.get("time", "")) for each in (suite, case))
    assert [child.tag for child in case] == {"big.yaml": ["failure"], "broken.yaml": ["error"], "ncf": []}[model]
    assert all(set(child.attrib) == {"type", "message"} and len(child) == 0 for child in case)


@pytest.mark.parametrize("format", ["text", "json", "junit", "sarif", "github", "gitlab", "markdown"])
def test_a_file_name_that_is_no_text_is_reported(emplace: Emplace, tmp_path: Path, format: str) -> None:
    """Printed, and in a file."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.yaml")).write_text(BROKEN)
    done = emplace("check", os.fsdecode(b"b\xff.yaml"), *HOST, "--format", format, "--report", f"{format}=report")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "embedding_dim: must be a multiple of 4" in done.stderr
    assert (tmp_path / "report").read_text() == done.stdout


@pytest.mark.usefixtures("folder")
def test_no_line_of_the_text_is_longer_than_the_terminal(emplace_here: Emplace, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = emplace_here("check", "big.yaml", "broken.yaml", *HOST).stdout
        assert text.startswith("1 of 2 checks fails: big on dgx-h100 does not fit; 1 bad input.")
        assert columns * 0.7 < max(map(len, text.splitlines())) <= columns


@pytest.mark.usefixtures("folder")
def test_why_says_everything(emplace_here: Emplace) -> None:
    asked = ("check", "big.yaml", *HOST, "--hbm-reserve", "5%")
    short, full = emplace_here(*asked).stdout, emplace_here(*asked, "--why").stdout
    assert "more: --why" in short
    assert full.count("verified by solving with it") > short.count("verified by solving with it")


@pytest.mark.usefixtures("folder")
def test_markdown_folds_the_reasons(emplace_here: Emplace) -> None:
    report = emplace_here("check", "big.yaml", *HOST, "--format", "markdown").stdout
    head, _, rest = report.partition("<details><summary>big.yaml on dgx-h100</summary>")
    assert "**big on dgx-h100 does not fit.**" in head
    assert "GiB over" not in head
    assert "GiB over" in rest
    assert rest.rstrip().endswith("</details>")
