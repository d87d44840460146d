"""Many models on many hosts in one command: every pair is answered, side by side, and bad input hides no answer."""

from __future__ import annotations

import json
import re
import signal
from multiprocessing import active_children
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from emplace.app.cli.checking import Check, check_all
from emplace.app.cli.inputs import read_model
from emplace.app.reports.checked import RefusedCheck
from emplace.gate import Budgets, CheckResult
from emplace.placement.errors import ToolError
from emplace.placement.plan import PlanOptions
from emplace.planning import resolve_host
from emplace.solver.progress import Monitor
from tests.app.cli.command import Emplace, small_model, start_emplace, write_model
from tests.app.processes import cpu_seconds, descendants_of, is_alive, wait_until

HBM_ONLY = ("--ranks", "1", "--tiers", "hbm")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models, of which `large` fits one 80 GB device and not one of 32 GB, and one that can't be read."""
    models = tmp_path / "models"
    models.mkdir()
    write_model(models / "small.json")
    large = small_model(name="large")
    large["tables"][0]["num_embeddings"] = 150_000_000
    (models / "large.json").write_text(json.dumps(large))
    (models / "broken.json").write_text('{"schema_version": 1, "name": "broken"}')
    return models


def test_every_host_is_asked(emplace: Emplace, folder: Path) -> None:
    hosts = ("--host", "big-basin-32g", "--host", "dgx-h100")
    done = emplace("check", folder / "small.json", folder / "large.json", *hosts, *HBM_ONLY, "--format", "json")
    assert done.returncode == 1, done.stderr
    answers = {(check["model"], check["host"]): check["fits"] for check in json.loads(done.stdout)["checks"]}
    assert answers == {
        ("small", "big-basin-32g"): True,
        ("small", "dgx-h100"): True,
        ("large", "big-basin-32g"): False,
        ("large", "dgx-h100"): True,
    }


def test_a_process_that_may_use_one_core_checks_alone(emplace_here: Emplace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_processes(*_: Any) -> None:
        raise AssertionError("several")

    monkeypatch.setattr("emplace.app.cli.checking.in_processes", in_processes)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0})
    done = emplace_here("check", folder / "small.json", "ncf", "--host", "dgx-h100", *HBM_ONLY)
    assert done.returncode == 0, done.stderr


def test_a_pattern_is_read_where_the_shell_left_it(emplace_here: Emplace, folder: Path) -> None:
    (folder / "broken.json").unlink()
    (folder / "large.json").unlink()
    done = emplace_here("check", "models/*.json", "models/small.json", "--host", "dgx-h100", *HBM_ONLY)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("^fits ", done.stdout, re.MULTILINE)) == 1
    none = emplace_here("check", "models/*.yaml", "--host", "dgx-h100")
    assert none.returncode == 2
    assert "models/*.yaml" in none.stderr


@pytest.fixture
def reports(emplace_here: Emplace, folder: Path, tmp_path: Path) -> dict[str, str]:
    """What each format says of one model that fits and one that can't be read."""
    (folder / "large.json").unlink()
    said = {}
    for form in ("json", "junit", "sarif", "github", "markdown"):
        done = emplace_here("check", "models/*.json", "--host", "big-basin-32g", *HBM_ONLY, "--format", form, "--out", form)
        assert done.returncode == 2
        assert "models/broken.json:1: /tables: is required" in done.stderr
        said[form] = (tmp_path / form).read_text()
    text = emplace_here("check", "models/*.json", "--host", "big-basin-32g", *HBM_ONLY).stdout
    return said | {"text": text}


def test_a_bad_file_hides_no_answer_in_any_report(reports: dict[str, str]) -> None:
    assert reports["text"].splitlines()[0] == "1 of 2 checks fits; 1 bad input."
    assert re.search("^fits +models/small.json +big-basin-32g ", reports["text"], re.MULTILINE)
    assert re.search("^bad input +models/broken.json", reports["text"], re.MULTILINE)

    data: dict[str, Any] = json.loads(reports["json"])
    assert (data["fits"], [check["fits"] for check in data["checks"]]) == (None, [True])
    assert [(each["source"], each["host"]) for each in data["refused"]] == [("models/broken.json", None)]

    suite = ElementTree.fromstring(reports["junit"]).find("testsuite")
    assert suite is not None
    assert [suite.get(count) for count in ("tests", "failures", "errors")] == ["2", "0", "1"]

    results = json.loads(reports["sarif"])["runs"][0]["results"]
    assert {(result["ruleId"], result["level"]) for result in results} == {("bad-input", "error")}

    assert "::error file=models/broken.json,line=1,title=emplace bad-input::" in reports["github"]
    assert "::notice title=emplace::small on big-basin-32g fits" in reports["github"]
    assert "| **bad input** | models/broken.json |  |" in reports["markdown"]


def test_a_question_that_one_host_refuses_is_answered_on_the_other(emplace: Emplace, folder: Path, small_plan: Path) -> None:
    hosts = ("--host", "dgx-h100", "--host", "dgx-a100-80g", "--ranks", "2")
    done = emplace("check", folder / "small.json", *hosts, "--baseline", small_plan, "--max-regression", "50")
    assert done.returncode == 2
    assert re.search(r"^fits +\S*small.json +dgx-h100 ", done.stdout, re.MULTILINE)
    assert re.search(r"^bad input +\S*small.json +dgx-a100-80g", done.stdout, re.MULTILINE)
    assert "not comparable" in done.stderr


def _checks(count: int) -> list[Check]:
    model, host = read_model("m1"), resolve_host("big-basin-32g")
    return [Check(f"{number}", model, host, Budgets(), PlanOptions(time_limit=60)) for number in range(count)]


def test_a_process_that_is_killed_is_a_tool_error_and_no_answer() -> None:
    def kill_one(said: str) -> None:
        if said.startswith("1 of"):
            active_children()[0].kill()

    answers: list[CheckResult | RefusedCheck] = []
    with pytest.raises(ToolError, match="ended from outside"):
        answers.extend(check_all(_checks(40), kill_one, Monitor()))
    assert 1 <= len(answers) < 40


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    arguments = ("check", "m1", "m3", "--host", "zion", "--plan", "--time-limit", "100")
    command = start_emplace(*arguments, cwd=tmp_path, home=tmp_path)
    busy = wait_until(lambda: found if len(found := _busy_below(command.pid)) == 2 else None, 30)
    below = descendants_of(command.pid)
    command.send_signal(signal.SIGINT)
    assert command.wait(10) == 130
    wait_until(lambda: not any(map(is_alive, below | busy)), 5)


def _busy_below(pid: int) -> set[int]:
    """The processes that check, once they are no longer starting."""
    return {each for each in descendants_of(pid) if cpu_seconds(each) > 2}
