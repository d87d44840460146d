"""`emplace overview`: jobs of a file, and what is refused of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.cli.command import Emplace

JOBS: list[dict[str, Any]] = [
    {
        "name": "ranking",
        "at": "2026-03-01T10:00:00Z",
        "servers": {"trainers": 4, "readers": 2},
        "utilisation": {"cpu": 0.4, "network": 0.7},
        "tables": [{"num_embeddings": 30, "mean_length": 1}, {"num_embeddings": 20_000_000, "embedding_dim": 128, "mean_length": 28.4}],
        "predicted_step_us": 9000,
        "measured_step_us": 10_000,
    },
    {"servers": {"trainers": 8}, "utilisation": {"cpu": 0.8}},
    {"at": "2026-03-02", "predicted_step_us": 11_000, "measured_step_us": 10_000},
]


def written(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_what_jobs_say_is_counted_and_nothing_else(emplace_here: Emplace, tmp_path: Path) -> None:
    file = written(tmp_path / "jobs.jsonl", *JOBS[:2], "", JOBS[2])
    done = emplace_here("overview", file, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["jobs"] == 3
    assert {name: (each["jobs"], each["min"], each["max"]) for name, each in found["utilisation"].items()} == {
        "cpu": (2, 0.4, 0.8),
        "network": (1, 0.7, 0.7),
    }
    assert {name: each["mean"] for name, each in found["servers"].items()} == {"trainers": 6.0, "readers": 2.0}
    assert (found["hash_sizes"]["min"], found["hash_sizes"]["max"], found["hash_sizes"]["jobs"]) == (30, 20_000_000, 1)
    assert (found["embedding_dims"]["count"], found["feature_lengths"]["mean"]) == (1, 14.7)
    assert (found["prediction"]["ratio"]["min"], found["prediction"]["ratio"]["max"]) == (0.9, 1.1)
    assert [each["starts"] for each in found["prediction"]["periods"]] == ["2026-03-01", "2026-03-02"]


def test_the_report_has_every_part(emplace_here: Emplace, tmp_path: Path) -> None:
    done = emplace_here("overview", written(tmp_path / "jobs.jsonl", *JOBS))
    assert done.returncode == 0, done.stderr
    for words in ("3 jobs, 2 measurements", "utilisation", "servers", "readers", "hash size", "[###", "day from", "trend: not known"):
        assert words in done.stdout


def test_a_plan_is_a_job(emplace_here: Emplace, tmp_path: Path, small_plan: Path) -> None:
    plan = json.loads(small_plan.read_text())
    measured_us = plan["step_time_us"] / 1.25
    file = written(tmp_path / "jobs.jsonl", {"plan": plan}, {"plan": plan, "at": "2026-03-01", "measured_step_us": measured_us})
    found = json.loads(emplace_here("overview", file, "--format", "json").stdout)
    assert found["jobs"] == 2
    assert found["servers"]["trainers"]["mean"] == 1
    assert found["prediction"]["ratio"]["median"] == 1.25
    assert (found["hash_sizes"]["median"], found["embedding_dims"]["median"]) == (100_000, 64)
    assert (found["feature_lengths"]["min"], found["feature_lengths"]["max"]) == (1, 20)
    shares = {name: each["median"] for name, each in found["utilisation"].items()}
    most = max(rank["hbm_bytes"] / rank["hbm_capacity_bytes"] for rank in plan["ranks"])
    assert shares["device_memory"] == pytest.approx(most, rel=5e-3)
    dense = sum(rank["stages_us"]["dense"] for rank in plan["ranks"]) / len(plan["ranks"]) / plan["step_time_us"]
    assert shares["dense"] == pytest.approx(dense, rel=5e-3)
    assert "network" not in shares  # all on one node
    assert "parameter_servers" not in shares


BROKEN = {
    "no JSON": ("{", "", "is not valid JSON"),
    "no mapping": ("[1]", "", "must be a mapping"),
    "nothing": ({"name": "empty"}, "", "says nothing of the job"),
    "unknown key": ({"utilisation": {"cpu": 0.4}, "hosts": 3}, "/hosts", "unknown key"),
    "percent": ({"utilisation": {"cpu": 40}}, "/utilisation/cpu", "less than or equal to 1"),
    "negative": ({"servers": {"trainers": -1}}, "/servers/trainers", "greater than or equal to 0"),
    "no rows": ({"tables": [{"num_embeddings": 0}]}, "/tables/0/num_embeddings", "greater than 0"),
    "no time": ({"at": "yesterday", "servers": {"trainers": 1}}, "/at", "datetime"),
    "a number as time": ({"at": 1772359200, "servers": {"trainers": 1}}, "/at", "nobody knows the unit"),
    "beyond all calendars": ({"at": "9999-01-01T00:00:00Z", "servers": {"trainers": 1}}, "/at", "from 1970 to 9998"),
    "long ago": ({"at": "0001-01-01T00:00:00+12:00", "servers": {"trainers": 1}}, "/at", "from 1970 to 9998"),
    "NaN": ('{"measured_step_us": NaN}', "", "NaN"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_line_is_named_with_file_line_field_and_rule(emplace_here: Emplace, tmp_path: Path, case: str) -> None:
    line, pointer, rule = BROKEN[case]
    done = emplace_here("overview", written(tmp_path / "jobs.jsonl", JOBS[0], "", line, JOBS[1]))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"jobs.jsonl:3: {pointer}" in done.stderr
    assert rule in done.stderr


def test_only_the_first_broken_lines_are_shown(emplace_here: Emplace, tmp_path: Path) -> None:
    done = emplace_here("overview", written(tmp_path / "jobs.jsonl", *["{}"] * 1000))
    assert done.returncode == 2
    assert done.stderr.count("says nothing") == 20


def test_what_a_plan_says_is_said_once(emplace_here: Emplace, tmp_path: Path, small_plan: Path) -> None:
    plan = json.loads(small_plan.read_text())
    done = emplace_here("overview", written(tmp_path / "jobs.jsonl", {"plan": plan, "servers": {"trainers": 2}}))
    assert (done.returncode, "jobs.jsonl:1: /servers: is what the plan says" in done.stderr) == (2, True)


def test_the_database_is_looked_at_without_a_file(emplace_here: Emplace) -> None:
    done = emplace_here("overview")
    assert (done.returncode, done.stdout.strip()) == (0, "0 jobs, 0 measurements"), done.stderr


def test_files_that_cannot_be_read_and_two_sources_are_refused(emplace_here: Emplace, tmp_path: Path) -> None:
    missing = emplace_here("overview", tmp_path / "none.jsonl")
    assert (missing.returncode, "can't be read" in missing.stderr) == (2, True)
    both = emplace_here("overview", written(tmp_path / "jobs.jsonl", *JOBS), "--server", "http://127.0.0.1:9")
    assert (both.returncode, "leave out the URL or the file" in both.stderr) == (2, True)
