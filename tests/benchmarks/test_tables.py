"""The tables of the pages in docs/lab, as their programs print them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def _printed(table: str, results: Path, *lines: dict[str, Any]) -> list[str]:
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([sys.executable, "-m", f"benchmarks.{table}", str(results)], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_solver_table(tmp_path: Path) -> None:
    case = {"tables": 5, "devices": 8, "hbm_load": 0.9, "kinds": 1, "stages": 6, "limit_seconds": 10, "peak_bytes": 2**31}
    times = {"bound_seconds": 1.2, "seconds": 3.0, "work_seconds": 2.5, "limit_kind": "time", "stopped_by": "gap"}
    found = ({"gap": 0.01, "placement_gap": 0.025}, {"gap": None, "placement_gap": None}, {"gap": 0.01})
    printed = _printed("solver_table", tmp_path / "results", *(case | times | gaps for gaps in found))
    assert {line.count("|") for line in printed} == {13}
    shown = ("1.00% | 2.50%", "no plan | ", "1.00% | ")
    assert printed[2:] == [f"| 5 x 8 | 1 | 90% | 1 | 6 | 10 time | 1.2 | 3.0 | 2.5 | {gaps} | 2.0 |" for gaps in shown]


def test_planted_table_says_how_far_both_sides_are_from_the_known_plan(tmp_path: Path) -> None:
    case = {"tables": 5, "devices": 8, "draw": 2, "hbm_load": 0.9, "kinds": 1, "stages": 5, "limit_seconds": 10.0}
    known = case | {"gap": 0.02, "planted_us": 100.0, "step_time_us": 99.5, "lower_bound_us": 99.0}
    printed = _printed("planted_table", tmp_path / "results", known, known | {"step_time_us": None}, case | {"planted_us": None})
    shown = ("2.00% | -0.50% | 1.00%", "2.00% | no plan | 1.00%", "no plan |  | ")
    assert printed[2:] == [f"| 5 x 8 | 2 | 90% | 1 | 5 | 10 | {sides} |" for sides in shown]


def test_torchrec_table_leaves_cases_without_both_plans_out_of_the_mean(tmp_path: Path) -> None:
    ours = {"ok": True, "rating_ms": 1.0, "seconds": 1.0, "status": "optimal", "gap": 0.0}
    none = {"ok": False, "seconds": 1.0, "status": "undecided"}
    theirs = [{"ok": True, "rating_ms": rating_ms, "seconds": 0.5} for rating_ms in (2.0, 8.0)]
    printed = _printed(
        "torchrec_table",
        tmp_path / "results",
        {"case": "a", "torchrec": theirs[0], "emplace": ours},
        {"case": "b", "torchrec": theirs[0], "emplace": none},
        {"case": "c", "torchrec": theirs[1], "emplace": ours},
    )
    assert printed[2:5] == [
        "| a | 2 | 0.5 | 1 | 1.0 | optimal | 2.00 |",
        "| b | 2 | 0.5 | undecided | 1.0 |  |  |",
        "| c | 8 | 0.5 | 1 | 1.0 | optimal | 8.00 |",
    ]
    assert printed[-1] == "Geometric mean of the last column 4.00, least 2.00, over 2 cases with both plans."


def test_a_table_wants_a_file() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.executed_table"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "benchmarks.executed_table FILE" in done.stderr


def test_asynchronous_table_has_quality_where_there_is_a_baseline(tmp_path: Path) -> None:
    loads = {"throughput_examples_per_s": 1000.0, "utilisation": {"cores": 0.5, "sparse_server": 0.9}, "limiting": "sparse_server"}
    best = {"normalised_entropy": 0.8, "best_normalised_entropy": 0.7}
    stale = {"mean": 1.5, "most": 4}
    fast = {"case": "a", "predicted": loads, "measured": loads, "predicted_over_measured": 1.0, "synchronous": None}
    good = fast | {"case": "b", "quality": best, "synchronous": best, "staleness": {"rows": stale, "centre": stale}}
    printed = _printed("asynchronous_table", tmp_path / "results", fast, good)
    assert printed[2] == "| a | 1,000 | 1,000 | 1.00 | sparse server 90% | sparse server 90% |"
    assert printed[-1] == "| b | 0.8000 | 0.8000 | 0.7000 | 1.50 | 4 | 1.50 | 4 |"
    assert len(printed) == 8
