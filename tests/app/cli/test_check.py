from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from emplace.app.reports.checked import Checked
from emplace.app.reports.outcome import CheckOutcome
from emplace.app.reports.text import text_report
from emplace.gate import CheckVerdict
from emplace.placement.cost_model import CostSource
from emplace.placement.plan import StoppedBy
from tests.app.cli.command import QUICK, Emplace, small_model, write_model

HOST = ("--host", "dgx-h100", "--ranks", "2")


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A model whose one table is over both devices' memory."""
    model = small_model(name="big")
    model["tables"][0]["num_embeddings"] = 10**9
    path = tmp_path / "big.json"
    path.write_text(json.dumps(model))
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_model(tmp_path / "small.json")


def test_what_fits_passes(emplace_here: Emplace, small: Path) -> None:
    done = emplace_here("check", small, *HOST)
    assert done.returncode == 0
    assert "small on dgx-h100 fits" in done.stdout
    assert "not optimised" in done.stdout
    assert "gap" not in done.stdout


def test_what_does_not_fit_says_by_how_many_bytes_and_what_would(emplace_here: Emplace, big: Path) -> None:
    done = emplace_here("check", big, *HOST, "--tiers", "hbm")
    assert done.returncode == 1
    assert "does not fit" in done.stdout
    assert re.search(r"[0-9.]+ GiB over", done.stdout)
    assert "verified" in done.stdout


def test_the_best_plan_is_looked_for_where_it_is_asked_for(emplace_here: Emplace, tmp_path: Path) -> None:
    slow_device = (
        write_model(tmp_path / "slow.json", local_batch_size=65_536),
        *HOST,
        "--stack",
        "tensorflow-distributed-embeddings",
        *QUICK,
    )
    first = json.loads(emplace_here("check", *slow_device, "--format", "json").stdout)["checks"][0]
    best = json.loads(emplace_here("check", *slow_device, "--plan", "--format", "json").stdout)["checks"][0]
    assert first["stopped_by"] == "target"
    assert best["stopped_by"] in ("gap", "exact")
    assert best["gap"] < 0.002 < first["gap"]
    assert best["step_time_us"] <= first["step_time_us"]
    assert "of what placement decides" in emplace_here("check", *slow_device, "--plan").stdout


@pytest.mark.parametrize(
    ("budget", "code", "rule"),
    [
        (("--max-step-time-us", "1e9"), 0, "max-step-time"),
        (("--max-step-time-us", "1"), 1, "max-step-time"),
        (("--min-throughput", "1"), 0, "min-throughput"),
        (("--min-throughput", "1e15"), 1, "min-throughput"),
        (("--max-power-w", "10200"), 0, "max-power"),
        (("--max-power-w", "10199"), 1, "max-power"),
    ],
)
def test_budgets(emplace_here: Emplace, small: Path, budget: tuple[str, str], code: int, rule: str) -> None:
    done = emplace_here("check", small, *HOST, *budget, "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == code
    assert report["fits"] is (code == 0)
    assert [(each["rule"], each["kept"]) for each in report["checks"][0]["budgets"]] == [(rule, code == 0)]


def test_a_baseline_holds_the_step_time(emplace_here: Emplace, small: Path, small_plan: Path, tmp_path: Path) -> None:
    baseline = ("--baseline", str(small_plan), "--max-regression", "2")
    assert emplace_here("check", small, *HOST, *baseline).returncode == 0
    slower = small_model()
    slower["top_mlp"] = [64] * 20 + [1]
    (tmp_path / "slower.json").write_text(json.dumps(slower))
    done = emplace_here("check", "slower.json", *HOST, *baseline)
    assert done.returncode == 1
    assert "max-regression" in done.stdout


def test_a_baseline_of_another_host_is_refused(emplace_here: Emplace, small: Path, small_plan: Path) -> None:
    done = emplace_here("check", small, "--host", "dgx-a100-80g", "--ranks", "2", "--baseline", small_plan, "--max-regression", "2")
    assert done.returncode == 2
    assert "not comparable" in done.stderr


def test_a_baseline_of_another_model_is_refused(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "other.json", name="other")
    done = emplace_here("check", "other.json", *HOST, "--baseline", small_plan, "--max-regression", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no baseline is a plan of other" in done.stderr


def test_two_baselines_of_one_model_are_refused(emplace_here: Emplace, small: Path, small_plan: Path) -> None:
    done = emplace_here("check", small, *HOST, "--baseline", small_plan, "--baseline", small_plan, "--max-regression", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "more than one baseline is a plan of small" in done.stderr


def test_a_proven_no_outweighs_and_soft_fail_reports_it(emplace: Emplace, emplace_here: Emplace, small: Path, big: Path) -> None:
    both = emplace("check", small, big, *HOST, "--tiers", "hbm")
    assert both.returncode == 1
    assert re.search(r"^fits +\S*small.json +dgx-h100 ", both.stdout, re.MULTILINE)
    soft = emplace_here("check", small, big, *HOST, "--tiers", "hbm", "--soft-fail")
    assert soft.returncode == 0
    assert soft.stdout == both.stdout


def test_reports_go_to_a_file_and_text_stays_on_stdout(emplace_here: Emplace, big: Path, tmp_path: Path) -> None:
    done = emplace_here("check", big, *HOST, "--tiers", "hbm", "--format", "sarif", "--out", "report/emplace.sarif")
    assert "does not fit" in done.stdout
    log = json.loads((tmp_path / "report/emplace.sarif").read_text())
    (run,) = log["runs"]
    (result,) = run["results"]
    assert log["version"] == "2.1.0"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "capacity"
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("big.json")


def test_junit_counts_its_cases(emplace_here: Emplace, small: Path, big: Path) -> None:
    done = emplace_here("check", small, big, *HOST, "--tiers", "hbm", "--format", "junit")
    suite = ElementTree.fromstring(done.stdout).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed == [str(big)]
    times = [float(case.get("time", "0")) for case in suite.iter("testcase")]
    assert all(time > 0 for time in times)
    assert float(suite.get("time", "0")) == pytest.approx(sum(times), abs=0.002)


def test_github_annotates_the_file(emplace_here: Emplace, big: Path) -> None:
    (line,) = emplace_here("check", big, *HOST, "--tiers", "hbm", "--format", "github").stdout.splitlines()
    assert line.startswith("::error file=")
    assert "big.json" in line


def test_markdown_is_a_table(emplace_here: Emplace, small: Path) -> None:
    lines = emplace_here("check", small, *HOST, "--format", "markdown").stdout.splitlines()
    assert lines[2] == "**small on dgx-h100 fits.**"
    assert {line.count("|") for line in lines[4:7]} == {7}
    assert lines[6].startswith("| fits | ")


def test_a_budget_on_prices_that_nobody_measured_says_how_sure_it_is(emplace_here: Emplace, small: Path) -> None:
    found = json.loads(emplace_here("check", small, *HOST, "--format", "json").stdout)["checks"][0]
    fast_us, slow_us = found["step_range_us"]
    assert fast_us < found["step_time_us"] < slow_us

    def budget(step_us: float, *more: str) -> tuple[int, bool | None, bool | None]:
        done = emplace_here("check", small, *HOST, "--max-step-time-us", str(step_us), *QUICK, "--format", "json", *more)
        (result,) = json.loads(done.stdout)["checks"][0]["budgets"]
        return done.returncode, result["kept"], result["sure"]

    assert budget(slow_us * 1.01, "--sure") == (0, True, True)
    assert budget(slow_us * 0.99) == (0, True, False)
    assert budget(fast_us * 1.01) == (1, False, False)
    assert budget(fast_us * 0.99, "--sure") == (1, False, True)
    assert budget(fast_us * 1.01, "--sure") == (3, None, False)
    assert (
        "is not sure to keep or to break max-step-time"
        in emplace_here("check", small, *HOST, "--max-step-time-us", str(slow_us * 0.99), *QUICK, "--sure").stdout
    )


@pytest.mark.parametrize(
    ("stopped_by", "option"), [(StoppedBy.TIME, "--time-limit"), (StoppedBy.WORK, "--work-limit"), (StoppedBy.TARGET, None)]
)
def test_what_is_undecided_says_what_ran_out(stopped_by: StoppedBy, option: str | None) -> None:
    undecided = CheckOutcome(
        model="small",
        host="zion",
        fits=None,
        verdict=CheckVerdict.UNDECIDED,
        summary="small on zion is undecided",
        cost_source=CostSource.DATASHEET,
        stopped_by=stopped_by,
    )
    said = [line for line in text_report(Checked((undecided,))).splitlines() if "ran out" in line]
    assert [line.partition(": ")[2] for line in said] == ([] if option is None else [f"a longer {option} may decide it"])


def test_a_stack_has_its_own_prices(emplace_here: Emplace, small: Path, small_plan: Path, tmp_path: Path) -> None:
    steps = {
        stack: json.loads(emplace_here("check", small, *HOST, "--stack", stack, "--format", "json").stdout)["checks"][0]["step_time_us"]
        for stack in ("torchrec-eager", "hugectr-graph")
    }
    assert steps["hugectr-graph"] < steps["torchrec-eager"]
    unknown = emplace_here("check", small, *HOST, "--stack", "no-such")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "built in are cpu-caffe2-like, hugectr-graph" in unknown.stderr
    (tmp_path / "cost.json").write_text(json.dumps(json.loads(small_plan.read_text())["question"]["cost_model"]))
    both = emplace_here("check", small, *HOST, "--stack", "hugectr-graph", "--cost-model", "cost.json")
    assert (both.returncode, "goes without a cost model" in both.stderr) == (2, True)
