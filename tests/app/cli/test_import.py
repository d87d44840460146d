"""`emplace import`: out as TorchRec reads it, back as a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.cli.command import Emplace, write_model


def test_there_and_back(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    asked = ("small.json", "--host", "dgx-h100", "--ranks", "2")
    assert emplace_here("plan", *asked, "--format", "torchrec", "--out", "theirs.json").returncode == 0
    model = ("--model", "small.json", "--host", "dgx-h100")
    done = emplace_here("import", "theirs.json", *model, "--nodes", "1", "--out", "back.json", "--format", "json")
    assert done.returncode == 0, done.stderr
    back, plan = json.loads(done.stdout), json.loads(small_plan.read_text())
    assert [back["tables"], back["step_time_us"]] == [plan["tables"], plan["step_time_us"]]
    bounded = [(each["lower_bound_us"], each["gap"], each["placement_gap"], each["solver"]["bound"]) for each in (plan, back)]
    assert bounded[0] == bounded[1] == (plan["step_time_us"], 0.0, 0.0, "launches")
    for ours, theirs in zip(plan["ranks"], back["ranks"], strict=True):
        assert ours.pop("stages_us") == pytest.approx(theirs.pop("stages_us"))
        assert ours == pytest.approx(theirs)
    assert emplace_here("audit", "back.json").returncode == 0
    difference = json.loads(emplace_here("diff", small_plan, "back.json", "--format", "json").stdout)
    assert (difference["tables"], difference["bytes_to_move"]) == ([], 0)


def test_bad_files_are_refused_with_the_reason(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    for text, said in (
        ("[]", "must be a mapping"),
        ('{"world_size": 2}', "/plan: is required"),
        ('{"world_size": 1000000000, "plan": {}}', "/world_size: must be less"),
        ("{", "not valid JSON"),
    ):
        (tmp_path / "theirs.json").write_text(text)
        done = emplace_here("import", "theirs.json", "--model", "small.json", "--host", "dgx-h100")
        assert (done.returncode, done.stdout) == (2, "")
        assert "theirs.json" in done.stderr
        assert said in done.stderr
