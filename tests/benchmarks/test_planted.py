"""Planted plans: the changed question is the same but for times, and its known plan is even."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.generate import Case, draw
from benchmarks.planted import evened
from emplace.solver.budget import Budget
from emplace.solver.engine import solve
from emplace.solver.model.problem import Scope, fits, loads_of
from emplace.solver.progress import Monitor

ROOT = Path(__file__).parents[2]
OUTPUTS = 2


@pytest.mark.parametrize("kinds", [1, 2])
def test_all_devices_last_equally_long_but_where_loads_come_in_steps(kinds: int) -> None:
    problem = draw(Case("even", 60, 8, 0.7, kinds=kinds))
    plan = solve(problem, Budget(seconds=0.5, gap=1e-3, seed=0), Monitor()).solution
    assert plan is not None
    assert (problem.option_scope[plan.option] == Scope.DEVICE).sum() > 40
    planted = evened(problem, plan)
    before, after = loads_of(problem, plan), loads_of(planted, plan)
    assert fits(planted, after)
    others = [stage for stage in range(problem.num_stages) if stage != OUTPUTS and np.ptp(before.time_us[:, stage]) > 0]
    assert others
    for stage in others:
        assert after.time_us[:, stage] == pytest.approx(before.time_us[:, stage].mean())
    assert after.time_us[:, OUTPUTS] == pytest.approx(before.time_us[:, OUTPUTS])


def test_a_case_has_a_line_whose_bound_is_no_higher_than_either_plan() -> None:
    command = [sys.executable, "-m", "benchmarks.planted", "m2x8-85-k5", "--seconds", "0.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = [json.loads(text) for text in done.stdout.splitlines()]
    assert line["lower_bound_us"] <= min(line["planted_us"], line["step_time_us"]) * (1 + 1e-9)
    assert line["planted_us"] > 0
    assert line["case"] == "m2x8-85-k5"
