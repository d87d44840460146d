"""The sample repository, and what the gate is run by: pre-commit itself, and the scripts of the other jobs by bash."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "examples" / "gate"
BIN = Path(sys.executable).parent
LARGE = ("num_embeddings: 400_000_000", "num_embeddings: 4_000_000_000")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def committed(folder: Path) -> str:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    folder = tmp_path / "sample"
    shutil.copytree(SAMPLE, folder)
    return folder


def break_it(sample: Path) -> None:
    ranker = sample / "models" / "ranker.yaml"
    ranker.write_text(ranker.read_text().replace(*LARGE))


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    own = {"PATH": f"{BIN}:{os.environ['PATH']}", "EMPLACE_HOME": str(tmp_path / "home"), "PRE_COMMIT_HOME": str(tmp_path / "pre-commit")}
    return {name: value for name, value in os.environ.items() if not name.startswith(("EMPLACE_", "GIT_"))} | own | more


@pytest.fixture
def hooked(sample: Path, tmp_path: Path) -> Path:
    """The sample with the hook as this repository offers it, but run from this environment: installing it would compile it anew."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    offered = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert offered.count("language: python") == 1
    (hooks / ".pre-commit-hooks.yaml").write_text(re.sub("language: python.*", "language: system", offered))
    config = sample / ".pre-commit-config.yaml"
    wanted = yaml.safe_load(config.read_text())
    wanted["repos"][0] |= {"repo": str(hooks), "rev": committed(hooks)}
    config.write_text(yaml.safe_dump(wanted))
    committed(sample)
    return sample


def pre_commit(sample: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "pre-commit", "run", *arguments], cwd=sample, env=environment(tmp_path), capture_output=True, text=True, timeout=120
    )


def test_pre_commit_refuses_what_does_not_fit(hooked: Path, tmp_path: Path) -> None:
    fits = pre_commit(hooked, tmp_path, "--all-files")
    assert fits.returncode == 0, fits.stdout
    break_it(hooked)
    refused = pre_commit(hooked, tmp_path, "--all-files")
    assert refused.returncode == 1
    assert "1 of 3 checks fails: ranker on dgx-h100 does not fit" in refused.stdout


def test_pre_commit_looks_at_a_commit_of_the_config_alone(hooked: Path, tmp_path: Path) -> None:
    config = hooked / "emplace.toml"
    config.write_text(config.read_text().replace("max_step_time_us = 12000", "max_step_time_us = 1"))
    git(hooked, "add", "emplace.toml")
    refused = pre_commit(hooked, tmp_path)
    assert refused.returncode == 1, refused.stdout
    assert "ranker on dgx-h100" in refused.stdout


def step(name: str) -> dict[str, Any]:
    (found,) = [each for each in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"] if each.get("name") == name]
    return dict(found)


def test_examples_are_pinned_to_the_version_that_has_what_they_show() -> None:
    texts = [path for path in (ROOT / "examples").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    texts += [ROOT / "action.yml", *(ROOT / "docs" / "how-to").glob("*.md")]
    pins = [pin for path in texts for pin in re.findall(r"(?:emplace[@/]|rev: )v(\d+(?:\.\d+)+)", path.read_text(encoding="utf-8"))]
    assert len(pins) > 5
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert set(pins) == {version.partition(".dev")[0]}


@pytest.mark.parametrize(
    ("package", "extra", "installed"),
    [
        ("", "", "/the action's folder"),
        ("", "[solve]", "/the action's folder[solve]"),
        ("emplace==0.2.0", "[solve]", "emplace[solve]==0.2.0"),
        ("wheels/emplace-0.2.0-cp312-cp312-linux_x86_64.whl", "[solve]", "wheels/emplace-0.2.0-cp312-cp312-linux_x86_64.whl[solve]"),
    ],
)
def test_the_action_installs_its_source_or_a_package(tmp_path: Path, package: str, extra: str, installed: str) -> None:
    """With a Python that notes what it is asked: a real installation compiles for a minute."""
    called = tmp_path / "called"
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/bash\nif [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/"; fi\nprintf "%s\\n" "${{@: -1}}" >> {called}\n'
    )
    python.chmod(0o755)
    installing, venv = step("Install"), tmp_path / "runner temp" / "emplace"
    said = {"EMPLACE_VENV": str(venv), "EMPLACE_SOURCE": "/the action's folder", "EMPLACE_PACKAGE": package, "EMPLACE_EXTRA": extra}
    assert set(installing["env"]) == set(said)
    given = environment(tmp_path, **said) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", installing["run"]], env=given, check=True, timeout=60)
    assert called.read_text().splitlines() == [str(venv), installed]


def digest(source: Path) -> str:
    output = source.parent / "output"
    output.unlink(missing_ok=True)
    given = os.environ | {"EMPLACE_SOURCE": str(source), "GITHUB_OUTPUT": str(output)}
    subprocess.run([sys.executable, "-c", step("Digest")["run"]], env=given, check=True, timeout=60)
    (said,) = output.read_text().splitlines()
    return said.removeprefix("digest=")


def test_what_the_action_keeps_is_of_its_own_sources(tmp_path: Path) -> None:
    """A branch, and the folder itself, keep their names when their sources change."""
    source = tmp_path / "action"
    for file in ("action.yml", "solver/native/search.cpp", ".git/index"):
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).write_text("one")
    first = digest(source)
    (source / ".git" / "index").write_text("two")
    assert digest(source) == first
    (source / "solver" / "native" / "search.cpp").write_text("two")
    second = digest(source)
    (source / "solver" / "native" / "search.cpp").rename(source / "solver" / "native" / "moved.cpp")
    assert len({first, second, digest(source)}) == 3
    (cache,) = [each for each in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"] if "cache" in each.get("uses", "")]
    assert f"steps.{step('Digest')['id']}.outputs.digest" in cache["with"]["key"]


@pytest.mark.parametrize("breaks", [False, True])
def test_the_actions_step_annotates_summarises_and_writes_its_reports(sample: Path, tmp_path: Path, breaks: bool) -> None:
    committed(sample)
    if breaks:
        break_it(sample)
    checking = step("Check")
    said = {
        "EMPLACE_VENV": str(BIN.parent),
        "EMPLACE_ARGUMENTS": "'models/r*.yaml'\n  --work-limit \"1\"\n",
        "EMPLACE_AGAINST": "HEAD",
        "EMPLACE_SARIF": "emplace.sarif",
        "EMPLACE_REPORT": str(tmp_path / "report.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    assert set(checking["env"]) == {name for name in said if name.startswith("EMPLACE_")}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", checking["run"]],
        cwd=sample,
        env=environment(tmp_path, **said),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == int(breaks), done.stderr
    assert ("::error file=models/ranker.yaml,line=" in done.stdout) is breaks
    summary = (tmp_path / "summary").read_text()
    assert summary == (tmp_path / "report.md").read_text()
    assert ("1 changed since HEAD" in summary) is breaks
    assert (tmp_path / "output").read_text() == f"report={tmp_path / 'report.md'}\n"
    assert (sample / "emplace.sarif").exists()


def test_an_action_that_is_asked_nonsense_fails_as_the_command_does(sample: Path, tmp_path: Path) -> None:
    files = {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    asked = dict.fromkeys(step("Check")["env"], "") | {"EMPLACE_VENV": str(BIN.parent), "EMPLACE_ARGUMENTS": "--nonsense"}
    given = environment(tmp_path, **asked | files | {"EMPLACE_REPORT": str(tmp_path / "report.md")})
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", step("Check")["run"]], cwd=sample, env=given, capture_output=True, timeout=60)
    assert done.returncode == 2


def scripts() -> dict[str, list[str]]:
    """What each other system runs, but for the installation."""
    gitlab = yaml.safe_load((ROOT / "examples" / "gitlab-template.yml").read_text())[".emplace-check"]["script"]
    buildkite = yaml.safe_load((SAMPLE / ".buildkite" / "pipeline.yml").read_text())["steps"][0]["command"]
    jenkins = re.findall(r"sh '(.*)'", (SAMPLE / "Jenkinsfile").read_text())
    lines = {"gitlab": gitlab, "buildkite": buildkite, "jenkins": jenkins}
    return {name: [line.replace(".emplace/bin/", "") for line in found if "pip install" not in line] for name, found in lines.items()}


@pytest.mark.parametrize("system", ["gitlab", "buildkite", "jenkins"])
def test_the_other_jobs_run_as_they_stand(sample: Path, tmp_path: Path, system: str) -> None:
    (script,) = scripts()[system]
    break_it(sample)
    (sample / "models" / "retrieval.yaml").unlink()
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=sample,
        env=environment(tmp_path, EMPLACE_ARGUMENTS=""),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    for file in re.findall(r"--report \w+=(\S+)", script):
        assert (sample / file).stat().st_size > 0


def test_quotes_in_gitlabs_variable_are_read(sample: Path, tmp_path: Path) -> None:
    (script,) = scripts()["gitlab"]
    given = environment(tmp_path, EMPLACE_ARGUMENTS="'models/r*.yaml' --host \"dgx-h100\"")
    done = subprocess.run(["bash", "-e", "-c", script], cwd=sample, env=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (sample / "emplace-junit.xml").read_text().count("<testcase") == 2
