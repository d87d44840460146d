"""`emplace check --against`: what a change of the documents does, by a commit of the repository or by plans that were kept."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from emplace.placement.catalog import builtin_host
from tests.app.cli.command import COMMAND, QUICK, Emplace, small_model, write_model

ASKED = ("--ranks", "1", "--tiers", "hbm", *QUICK)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One commit with a model in a folder and a host file."""
    (tmp_path / "models").mkdir()
    write_model(tmp_path / "models" / "small.json")
    write_model(tmp_path / "models" / "other.json", name="other")
    (tmp_path / "host.yaml").write_text(yaml.safe_dump(builtin_host("dgx-h100").to_data() | {"name": "ours"}))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "before")
    return tmp_path


def larger(folder: Path, rows: int = 50_000_000) -> None:
    model = small_model()
    model["tables"][0]["num_embeddings"] = rows
    (folder / "models" / "small.json").write_text(json.dumps(model))


def checks(emplace: Emplace, *arguments: str) -> dict[str, Any]:
    done = emplace("check", *arguments, *ASKED, "--format", "json")
    assert done.stdout, done.stderr
    return {check["source"]: check | {"code": done.returncode} for check in json.loads(done.stdout)["checks"]}


def test_only_what_changed_is_said(emplace: Emplace, repository: Path) -> None:
    larger(repository)
    done = emplace("check", "models/*.json", "--host", "dgx-h100", *ASKED, "--against", "HEAD")
    assert done.returncode == 0, done.stderr
    assert "1 changed since HEAD, 1 did not" in done.stdout
    assert "other.json" not in done.stdout
    assert "tables: 0.05 GiB, now 12.13 GiB (+12.08 GiB)" in done.stdout


def test_before_and_after_are_in_the_document(emplace: Emplace, repository: Path) -> None:
    larger(repository)
    found = checks(emplace, "models/*.json", "--host", "dgx-h100", "--against", "HEAD")
    assert found["models/other.json"]["change"]["kind"] == "unchanged"
    change = found["models/small.json"]["change"]
    assert (change["kind"], change["before"]["verdict"], change["after"]["verdict"]) == ("changed", "fits", "fits")
    before = checks(emplace, "models/other.json", "--host", "dgx-h100", "--plan")["models/other.json"]
    assert change["before"]["step_time_us"] == before["step_time_us"]
    assert change["before"]["table_bytes"] == 2 * 100_000 * (64 * 4 + 4)
    assert change["after"]["step_time_us"] == found["models/small.json"]["step_time_us"]


def test_a_regression_is_judged_by_what_stood_there(emplace_here: Emplace, repository: Path) -> None:
    model = small_model(local_batch_size=65_536)
    (repository / "models" / "small.json").write_text(json.dumps(model))
    asked = ("models/small.json", "--host", "dgx-h100", "--stack", "hugectr-graph", "--against", "HEAD")
    (slower,) = checks(emplace_here, *asked, "--max-regression", "1").values()
    assert (slower["code"], slower["verdict"]) == (1, "over_budget")
    (allowed,) = checks(emplace_here, *asked, "--max-regression", "100000").values()
    assert (allowed["code"], allowed["budgets"][0]["rule"]) == (0, "max-regression")


def test_a_hook_of_a_linked_work_tree_refuses_a_regression(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There git's own variables name the repository, and would make the folder of the model its top."""
    asked = ("models/small.json", "--host", "dgx-h100", "--stack", "hugectr-graph", "--against", "HEAD", "--max-regression", "1")
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.write_text(shlex.join(["exec", str(COMMAND), "check", *asked, *ASKED]).join(["#!/bin/sh\n", "\n"]))
    hook.chmod(0o755)
    monkeypatch.setenv("EMPLACE_HOME", str(repository / "home"))
    linked = repository / "linked"
    git(repository, "worktree", "add", "--quiet", str(linked))
    write_model(linked / "models" / "small.json", local_batch_size=65_536)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        git(linked, "commit", "--all", "--message", "slower")
    assert b"max-regression" in refused.value.stderr + refused.value.output


def test_what_lies_in_no_work_tree_is_not_taken_for_new(emplace_here: Emplace, repository: Path) -> None:
    write_model(repository / ".git" / "small.json")
    done = emplace_here("check", ".git/small.json", "--host", "dgx-h100", *ASKED, "--against", "HEAD")
    assert done.returncode == 2
    assert "must be run in a work tree" in done.stderr


def test_a_new_model_and_one_that_could_not_be_read(emplace_here: Emplace, repository: Path) -> None:
    write_model(repository / "models" / "new.json", name="new")
    (repository / "models" / "other.json").write_text("{")
    git(repository, "commit", "--quiet", "--all", "--message", "broken")
    write_model(repository / "models" / "other.json", name="other")
    found = checks(emplace_here, "models/*.json", "--host", "dgx-h100", "--against", "HEAD")
    assert {source: check["change"]["kind"] for source, check in found.items()} == {
        "models/new.json": "new",
        "models/other.json": "unknown",
        "models/small.json": "unchanged",
    }
    assert "models/other.json at HEAD:1:" in found["models/other.json"]["change"]["notes"][0]


def test_other_prices_are_said_aloud(emplace_here: Emplace, repository: Path) -> None:
    host = repository / "host.yaml"
    host.write_text(host.read_text().replace("3.35TB/s", "2TB/s"))
    (check,) = checks(emplace_here, "models/small.json", "--host", "host.yaml", "--against", "HEAD", "--max-regression", "1").values()
    assert check["change"]["notes"] == [
        "the host changed, and its prices with it: the two steps are not comparable",
        "a regression of at most 1% is not judged",
    ]
    assert check["code"] == 0


def test_against_a_plan_that_was_kept(emplace_here: Emplace, repository: Path) -> None:
    assert emplace_here("plan", "models/small.json", "--host", "dgx-h100", *ASKED, "--out", "kept.json").returncode == 0
    asked = ("models/*.json", "--host", "dgx-h100", "--against", "kept.json")
    kinds = {source: check["change"]["kind"] for source, check in checks(emplace_here, *asked).items()}
    assert kinds == {"models/other.json": "new", "models/small.json": "unchanged"}
    larger(repository)
    assert checks(emplace_here, *asked)["models/small.json"]["change"]["kind"] == "changed"
    plan = json.loads((repository / "kept.json").read_text())
    plan["cost_model"]["digest"] = "sha256:" + 64 * "0"
    (repository / "kept.json").write_text(json.dumps(plan))
    done = emplace_here("check", "models/small.json", "--host", "dgx-h100", *ASKED, "--against", "kept.json")
    assert "cost model changed: the two steps are not comparable" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--against", "origin/main"), "git fetch origin main"),
        (("--against", "HEAD", "--against", "main"), "takes one commit, or plans: files, or those of a service"),
        (("--against", "HEAD", "--server", "http://127.0.0.1:1"), "--against goes with neither --baseline nor --server"),
        (("--max-regression", "1"), "--max-regression goes with --baseline or --against"),
        (("--against=--output=x",), "git knows no such commit"),
        (("--against", "http://127.0.0.1:9/plans/x"), "127.0.0.1:9"),
        (("--against", "http://127.0.0.1:9/models/x"), "must be the address of a service's plan"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_what_cannot_be_compared_is_refused(emplace_here: Emplace, arguments: tuple[str, ...], said: str) -> None:
    done = emplace_here("check", "models/small.json", "--host", "dgx-h100", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
