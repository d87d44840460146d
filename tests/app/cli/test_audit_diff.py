from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.cli.command import QUICK, Emplace, small_model, write_model


def test_a_plan_is_sound(emplace_here: Emplace, small_plan: Path) -> None:
    done = emplace_here("audit", small_plan)
    assert done.returncode == 0
    assert "sound" in done.stdout


def test_every_violation_is_named(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    plan = json.loads(small_plan.read_text())
    plan["tables"][0]["shards"][0]["rows"][1] -= 1
    plan["tables"][1]["name"] = "nowhere"
    (tmp_path / "bent.json").write_text(json.dumps(plan))
    done = emplace_here("audit", "bent.json", "--format", "json")
    named = " ".join(violation["what"] for violation in json.loads(done.stdout)["violations"])
    assert done.returncode == 1
    assert "users" in named
    assert "nowhere" in named


def test_a_plan_differs_from_itself_in_nothing(emplace_here: Emplace, small_plan: Path) -> None:
    diff = json.loads(emplace_here("diff", small_plan, small_plan, "--format", "json").stdout)
    assert (diff["question"], diff["tables"], diff["bytes_to_move"], diff["unchanged_tables"]) == ([], [], 0, 2)


def test_a_diff_starts_with_the_question(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    changed = small_model()
    changed["tables"][1]["num_embeddings"] *= 2
    changed["tables"].append(
        {"name": "new", "num_embeddings": 1000, "embedding_dim": 64, "features": [{"name": "new", "length": {"fixed": 1}}]}
    )
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    emplace_here("plan", "changed.json", "--host", "dgx-h100", "--ranks", "1", *QUICK, "--out", "changed-plan.json")
    diff = json.loads(emplace_here("diff", small_plan, "changed-plan.json", "--format", "json").stdout)
    where = {change["where"]: (change.get("before"), change.get("after")) for change in diff["question"]}
    assert where["/model/tables/pages/num_embeddings"] == ("100000", "200000")
    assert where["/model/tables/new"] == (None, "present")
    assert where["/options/ranks"] == ("2", "1")
    assert emplace_here("diff", small_plan, "changed-plan.json").stdout.startswith("question")


BROKEN: dict[str, tuple[Callable[[Any], None], str]] = {
    "twice": (lambda plan: plan["tables"].append(plan["tables"][0]), "/tables/2/name: the table users is placed twice"),
    "no shards": (lambda plan: plan["tables"][0].update(shards=[]), "/tables/0"),
    "no such rank": (lambda plan: plan["tables"][0]["shards"][0].update(rank=99), "/tables/0/shards/0"),
    "placed but infeasible": (lambda plan: plan.update(status="infeasible"), "/tables: must be empty in a plan that is infeasible"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plan_is_not_compared(emplace_here: Emplace, small_plan: Path, tmp_path: Path, case: str) -> None:
    spoil, said = BROKEN[case]
    plan: Any = json.loads(small_plan.read_text())
    spoil(plan)
    (tmp_path / "broken.json").write_text(json.dumps(plan))
    done = emplace_here("diff", small_plan, "broken.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"broken.json: {said}" in done.stderr


def test_options_that_mean_the_same_do_not_differ(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    plan = ("plan", "small.json", "--host", "dgx-h100")
    emplace_here(*plan, "--out", "all.json")
    emplace_here(*plan, "--nodes", "1", "--ranks", "8", "--tiers", "ddr,hbm", "--out", "same.json")
    emplace_here(*plan, "--tiers", "hbm", "--out", "other.json")
    question = [
        json.loads(emplace_here("diff", "all.json", name, "--format", "json").stdout)["question"] for name in ("same.json", "other.json")
    ]
    assert question == [[], [{"where": "/options/tiers", "before": "['hbm', 'ddr']", "after": "['hbm']"}]]
