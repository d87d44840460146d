"""`emplace run` of a plan for a machine that isn't here: refused with the reason, or emulated."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.app.cli.command import COMMAND, Emplace, write_model

pytestmark = pytest.mark.torch


def test_a_plan_for_another_host_is_refused_and_can_be_emulated(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    refused = emplace_here("run", small_plan)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "2 CUDA devices needed, 0 here" in refused.stderr
    assert "--emulate" in refused.stderr

    done = emplace_here("run", small_plan, "--emulate", "--steps", "2", "--out", "emulated.json")
    assert done.returncode == 0, done.stderr
    for said in ("emulated by 2 CPU ranks: holds", "not checked: emulated", "examples a rank: 512 planned, 128 here"):
        assert said in done.stdout
    assert "throughput " not in done.stdout.replace("throughput   not checked", "")
    measurement = json.loads((tmp_path / "emulated.json").read_text())
    assert (measurement["verified"], measurement["emulated"]["holds"]) == (False, True)
    assert not {"throughput_samples_per_s", "step_time_us"} & set(measurement)


def test_files_that_can_not_grow_are_named_by_their_folder(small_plan: Path, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command: list[str | Path] = ["sh", "-c", 'ulimit -f 1; exec "$0" run "$1" --emulate --steps 2', COMMAND, small_plan]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"emplace: can't write what the run needs: File too large ({tmp_path})"


def test_a_broken_plan_is_named_by_its_file(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    plan = json.loads(small_plan.read_text())
    plan["tables"].append(plan["tables"][0])
    (tmp_path / "broken.json").write_text(json.dumps(plan))
    done = emplace_here("run", "broken.json", "--emulate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("emplace: broken.json: /tables/2")


def test_lookups_by_the_cpus_of_a_node_can_not_run(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    assert emplace_here("plan", "small.json", "--host", "zion", "--tiers", "cpu", "--out", "cpus.json").returncode == 0
    refused = emplace_here("run", "cpus.json", "--emulate")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "CUDA trainers beside servers, remote or the CPUs of their node, can't run" in refused.stderr
