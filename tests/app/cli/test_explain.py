"""`emplace plan --explain`, as a person reads it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.app.cli.command import COMMAND, QUICK, Emplace, small_model, write_model

PLAN = ("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK, "--explain")


def test_the_text_says_what_binds_what_costs_and_what_would_help(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here(*PLAN)
    assert done.returncode == 0, done.stderr
    for said in (
        "why the step takes",
        "no placement changes",
        "which stages and ranks bind",
        "which tables cost most",
        "what more hardware would bring",
        "+1 GiB of HBM on each device",
        "+335 GB/s of HBM of each h100-80g",
        "one node more, 2",
        "note: prices are a datasheet's",
    ):
        assert said in done.stdout
    assert "4 changes of the hardware to solve, each within 0.1 s of work" in done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_the_figures_are_those_of_the_plan_document(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here(*PLAN, "--format", "json", "--out", "plan.json")
    plan = json.loads(done.stdout)
    assert plan == json.loads((tmp_path / "plan.json").read_text())
    found = plan["diagnosis"]
    for stage in found["stages"]:
        loads = [rank["stages_us"][stage["stage"]] for rank in plan["ranks"]]
        assert (stage["time_us"], stage["mean_us"]) == pytest.approx((max(loads), sum(loads) / len(loads)))
    assert {table["name"] for table in found["tables"]} == {table["name"] for table in plan["tables"]}
    assert {change["kind"] for change in found["changes"]} == {"hbm", "nodes", "memory_bandwidth", "intra_node_link"}
    assert emplace_here("audit", "plan.json").stdout.startswith("plan.json: sound")
    plan["diagnosis"]["stages"][0]["time_us"] *= 2
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert "/diagnosis/stages" in emplace_here("audit", "plan.json").stdout


def test_without_it_nothing_is_explained(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    assert "diagnosis" not in json.loads(emplace_here(*PLAN[:-1], "--format", "json").stdout)


def test_what_does_not_fit_is_explained_as_ever(emplace_here: Emplace, tmp_path: Path) -> None:
    model = small_model()
    model["tables"][0]["num_embeddings"] = 10**9
    (tmp_path / "small.json").write_text(json.dumps(model))
    done = emplace_here(*PLAN, "--tiers", "hbm")
    assert done.returncode == 1
    assert "what would make it fit" in done.stdout
    assert "what more hardware" not in done.stdout
    assert done.stderr == ""


def test_torchrec_has_no_place_for_it(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here(*PLAN, "--format", "torchrec")
    assert done.returncode == 2
    assert "--explain goes with --format text or json" in done.stderr


def test_ctrl_c_ends_the_explaining_and_keeps_the_plan(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "plan", "m1", "--host", "dgx-h100", "--work-limit", "6", "--gap", "0.9", "--explain", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stderr is not None
    assert "explaining" in process.stderr.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=120)
    found = json.loads(stdout)["diagnosis"]
    assert process.returncode == 0
    assert "interrupted" in found["notes"][-1]
    assert "step_time_us" not in found["changes"][-1]
