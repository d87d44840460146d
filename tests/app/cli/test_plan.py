from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.app.cli.command import COMMAND, QUICK, Emplace, small_model, write_model
from tests.app.processes import cpu_seconds, wait_until


def _untimed(plan: dict[str, Any]) -> dict[str, Any]:
    plan["solver"] = {key: value for key, value in plan["solver"].items() if not key.endswith("seconds")}
    return plan


def test_json_is_one_document_that_covers_every_table(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK, "--format", "json")
    plan = json.loads(done.stdout)
    assert done.returncode == 0
    assert plan["status"] in ("optimal", "feasible")
    assert [table["name"] for table in plan["tables"]] == ["users", "pages"]
    assert plan["cost_model"]["source"] == "datasheet"
    assert plan["gap"] <= 0.01
    assert plan["gap"] <= plan["placement_gap"] <= 1


def test_the_same_question_gets_the_same_plan(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    again = emplace_here("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK, "--format", "json").stdout
    assert _untimed(json.loads(again)) == _untimed(json.loads(small_plan.read_text()))


def test_a_search_begins_with_an_earlier_plan_and_says_so(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    write_model(tmp_path / "other.json", tables=[table | {"name": f"other_{table['name']}"} for table in small_model()["tables"]])
    question = ("--host", "dgx-h100", "--ranks", "2", *QUICK, "--format", "json", "--warm-start", small_plan)
    plan = json.loads(emplace_here("plan", "small.json", *question).stdout)
    assert plan["solver"]["warm_start"].startswith("sha256:")
    refused = emplace_here("plan", "other.json", *question)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "places no table of" in refused.stderr


def test_text_is_plain_where_nobody_sees_colours(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK)
    assert "\x1b" not in done.stdout + done.stderr
    for said in ("small on dgx-h100", "gap", "placement decides", "datasheet", "[##", "lookup_backward", "emplace audit plan.json"):
        assert said in done.stdout


def test_the_text_names_the_file_that_was_written(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    asked = ("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK, "--proof")
    kept, printed = emplace_here(*asked, "--out", "my plans/a.json").stdout, emplace_here(*asked).stdout
    for said in (
        "audit 'my plans/a.json' --proof",
        "audit 'my plans/a.json'  ",
        "run 'my plans/a.json'",
        "diff old.json 'my plans/a.json'",
    ):
        assert f"emplace {said}" in kept
    assert "plan.json" not in kept
    assert "next: keep it with --out plan.json, then" in printed


def test_watts_are_said_by_utilisation_where_the_host_says_what_an_idle_node_draws(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    host = json.loads(emplace_here("hosts", "dgx-h100", "--format", "json").stdout)
    host["node"]["idle_power_w"] = 2000.0
    (tmp_path / "idle.json").write_text(json.dumps(host), encoding="utf-8")
    assert "10,200 W at full load" in emplace_here("plan", "small.json", "--host", "dgx-h100").stdout
    said = emplace_here("plan", "small.json", "--host", "idle.json").stdout
    found = re.search(r"([\d,]+) W by utilisation", said)
    assert found is not None, said
    assert 2000 < int(found[1].replace(",", "")) < 10_200


def test_cpus_look_up_where_they_are_asked_to(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here("plan", "small.json", "--host", "zion", "--tiers", "cpu", "--format", "json")
    plan = json.loads(done.stdout)
    assert done.returncode == 0
    assert {plan["ranks"][shard["rank"]]["device"] for table in plan["tables"] for shard in table["shards"]} == {"host-cpus"}
    refused = emplace_here("plan", "small.json", "--host", "zion", "--tiers", "hbm,ddr,cpu")
    assert refused.returncode == 2
    assert "cpu goes with hbm alone" in refused.stderr


def test_torchrec_reads_what_is_exported(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here(
        "plan", "small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK, "--format", "torchrec", "--out", "torchrec.json"
    )
    exported = json.loads(done.stdout)
    assert exported["world_size"] == 2
    assert exported == json.loads((tmp_path / "torchrec.json").read_text())


def test_what_does_not_fit_is_a_proven_no_with_reasons_and_fixes(emplace_here: Emplace, tmp_path: Path) -> None:
    model = small_model()
    model["tables"][0]["num_embeddings"] = 10**9
    (tmp_path / "big.json").write_text(json.dumps(model))
    done = emplace_here("plan", "big.json", "--host", "dgx-h100", "--tiers", "hbm", "--ranks", "2", "--format", "json")
    plan = json.loads(done.stdout)
    assert done.returncode == 1
    assert plan["status"] == "infeasible"
    assert any("GiB over" in reason for reason in plan["explanation"]["reasons"])
    assert any(fix["verified"] for fix in plan["explanation"]["fixes"])


def test_work_is_counted_unless_time_is_asked_for(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    limits = {(): {"work_limit": 10.0}, ("--time-limit", "0.3"): {"time_limit": 0.3}, QUICK: {"work_limit": 0.1}}
    for given, asked in limits.items():
        done = emplace_here("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", "--format", "json", *given)
        options = json.loads(done.stdout)["question"]["options"]
        assert {key: value for key, value in options.items() if key.endswith("_limit")} == asked


def test_a_plan_that_ran_out_of_time_says_so(emplace_here: Emplace) -> None:
    done = emplace_here("plan", "m3", "--host", "zion", "--time-limit", "0.5", "--gap", "0")
    assert done.returncode == 0, done.stderr
    assert "stopped by the limit of 0.5 s of time" in done.stdout


def test_an_interrupted_solve_says_so(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "plan", "m3", "--host", "zion", "--work-limit", "3000", "--gap", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    )
    wait_until(lambda: cpu_seconds(process.pid) > 2, 60)  # it searches: to start takes half as long
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert messages.strip() == "emplace: interrupted"


def test_a_reader_that_leaves_is_no_verdict(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{COMMAND} models --format json | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout == "141\n"
    assert done.stderr == ""


def test_a_reserve_lowers_every_capacity(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", "--hbm-reserve", "25%", *QUICK, "--format", "json")
    plan = json.loads(done.stdout)
    assert plan["question"]["options"]["hbm_reserve"] == "25%"
    assert all(rank["hbm_capacity_bytes"] <= 60 * 2**30 for rank in plan["ranks"])
    refused = emplace_here("plan", "small.json", "--host", "dgx-h100", "--hbm-reserve", "5")
    assert refused.returncode == 2
    assert "/hbm_reserve" in refused.stderr


def test_a_plan_to_start_from_is_read_and_moves_are_reported(emplace_here: Emplace, small_plan: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    again = ("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", "--start", small_plan, "--move-price", "50", *QUICK)
    plan = json.loads(emplace_here(*again, "--format", "json").stdout)
    assert (plan["moved_bytes"], plan["move_cost_us"]) == (0, 0.0)
    assert "0 B from the start" in emplace_here(*again).stdout
    refused = emplace_here("plan", "small.json", "--host", "dgx-h100", "--move-price", "50")
    assert refused.returncode == 2
    assert "--start and --move-price go together" in refused.stderr


def test_the_fewest_devices_are_found_and_shown(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here("plan", "small.json", "--host", "dgx-h100", "--objective", "devices", "--out", "plan.json")
    assert done.returncode == 0
    assert "1 rank on 1 node; 0 smaller jobs proven impossible" in done.stdout
    assert emplace_here("audit", "plan.json").returncode == 0
    exported = emplace_here("plan", "small.json", "--host", "dgx-h100", "--objective", "devices", "--format", "torchrec")
    assert json.loads(exported.stdout)["world_size"] == 1
