"""`emplace calibrate`: the stack that it writes prices the plan as it was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from emplace.placement.stages import Stage
from tests.app.cli.command import QUICK, Emplace, write_model
from tests.placement.test_kineto import device_trace


def test_a_plan_under_the_calibrated_stack_lasts_as_long_as_was_measured(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    done = emplace_here("calibrate", small_plan, "--measured-step-ms", "5.5", "--out", "here.yaml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here.yaml").read_text() == done.stdout
    assert "step_us, step_feature_us, step_layer_us. This step says nothing of the others" in done.stderr
    model = write_model(tmp_path / "small.json")
    again = emplace_here("plan", model, "--host", "dgx-h100", "--ranks", "2", *QUICK, "--stack", "here.yaml", "--format", "json")
    plan = json.loads(again.stdout)
    assert plan["step_time_us"] == pytest.approx(5500, rel=1e-3)
    assert plan["question"]["cost_model"]["stack"]["name"] == "torchrec-eager-calibrated"


def test_a_trace_says_what_each_stage_took(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    lengths = dict.fromkeys(Stage, 50.0)
    (tmp_path / "kineto.json").write_text(json.dumps(device_trace(lengths, 5500.0)))
    done = emplace_here("calibrate", small_plan, "--measured-step-ms", "5.5", "--trace", "kineto.json", "--out", "here.yaml")
    assert done.returncode == 0, done.stderr
    assert "2 steps of 5,500.0 us in the trace, on devices" in done.stderr
    assert re.search(r"step: predicted .* us, measured 5,500.0 us, now 5,500.0 us$", done.stderr, re.MULTILINE)
    assert "the stack's ranges don't explain it" in done.stderr
    assert "warning" not in done.stderr
    unlike = emplace_here("calibrate", small_plan, "--measured-step-ms", "0.5", "--trace", "kineto.json")
    assert "warning: the trace's step of 5,500.0 us and the measured one of 500.0 us differ by more than 2 times" in unlike.stderr
    refused = emplace_here("calibrate", small_plan, "--measured-step-ms", "5.5", "--trace", small_plan)
    assert refused.returncode == 2
    assert "/traceEvents" in refused.stderr


def test_a_step_out_of_reach_is_refused(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    done = emplace_here("calibrate", small_plan, "--measured-step-ms", "500", "--out", "here.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(rf"emplace: {re.escape(str(small_plan))}:\d+: /question/cost_model/stack: a measured step of 500,000.0 us", done.stderr)
    assert "is outside the range of torchrec-eager" in done.stderr
    assert "a measured step of 500,000.0 us" in done.stderr
    assert not (tmp_path / "here.yaml").exists()


def test_a_plan_that_was_changed_is_refused(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    plan = json.loads(small_plan.read_text())
    plan["step_time_us"] /= 2
    (tmp_path / "changed.json").write_text(json.dumps(plan))
    done = emplace_here("calibrate", "changed.json", "--measured-step-ms", "5.5")
    assert done.returncode == 2
    assert "/step_time_us" in done.stderr
