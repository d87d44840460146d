"""Fixes can be pasted: `git apply` takes their patches, comments and layout stay, and the model then fits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from emplace.placement.catalog import builtin_host
from tests.app.cli.command import Emplace, small_model

BLOCK = """\
# ours
schema_version: 1
name: big
local_batch_size: 512   # per rank
dense_features: 13
bottom_mlp: [64]
top_mlp: [64, 1]
interaction: dot
together: [[users, shops]]  # one join
tables:
  # the largest
  - name: pages
    embedding_dim: 64
    num_embeddings: 800_000_000
    features:
      - {name: page, length: {fixed: 1}}

  - name: users   # small
    num_embeddings: 1000
    embedding_dim: 64
    features: [{name: user, length: {fixed: 1}}]
    # nowhere else
    constraints:
      tiers:
        - hbm

  - {name: shops, num_embeddings: 1000, embedding_dim: 64, features: [{name: shop, length: {fixed: 1}}]}
"""
FLOW = """\
{schema_version: 1, name: big, local_batch_size: 512, dense_features: 13, bottom_mlp: [64], top_mlp: [64, 1], interaction: dot,
 tables: [{name: pages, num_embeddings: 800000000, embedding_dim: 64, features: [{name: page, length: {fixed: 1}}]}]}"""
HOST = ("--ranks", "2", "--tiers", "hbm")


def as_json(indent: int | None) -> str:
    model = small_model(name="big")
    model["tables"][0]["num_embeddings"] = 800_000_000
    model["tables"][1]["constraints"] = {"tiers": ["hbm"]}
    return json.dumps(model, indent=indent)


def repository(folder: Path, name: str, text: str) -> Path:
    (folder / "models").mkdir()
    path = folder / "models" / name
    path.write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return path


def apply(folder: Path, patch: str) -> None:
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=folder, check=True, capture_output=True)


def found(emplace: Emplace, *arguments: str) -> Any:
    return json.loads(emplace("check", *arguments, *HOST, "--format", "json").stdout)["checks"][0]


@pytest.mark.parametrize(
    ("name", "text"),
    [("big.yaml", BLOCK), ("big.yaml", FLOW), ("big.yaml", BLOCK.rstrip()), ("big.json", as_json(2)), ("big.json", as_json(None))],
    ids=["block", "flow", "no end of line", "json", "json on one line"],
)
def test_every_patch_of_the_model_is_taken_by_git_and_makes_it_fit(emplace_here: Emplace, tmp_path: Path, name: str, text: str) -> None:
    path = repository(tmp_path, name, text)
    pastes = [paste for paste in found(emplace_here, f"models/{name}", "--host", "dgx-h100")["pastes"] if paste["patch"]]
    assert {"fp16" in paste["change"] for paste in pastes} == {True, False}
    for paste in pastes:
        path.write_text(text)
        apply(tmp_path, paste["patch"])
        assert path.read_text() != text
        assert found(emplace_here, f"models/{name}", "--host", "dgx-h100")["fits"] is True
        assert {line for line in text.splitlines() if "#" in line} <= set(path.read_text().splitlines())


def test_a_patch_changes_no_more_than_it_says(emplace_here: Emplace, tmp_path: Path) -> None:
    repository(tmp_path, "big.yaml", BLOCK)
    pastes = found(emplace_here, "models/big.yaml", "--host", "dgx-h100")["pastes"]
    (rows,) = [paste["patch"] for paste in pastes if "limit num_embeddings" in paste["change"]]
    changed = [line for line in rows.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changed[0] == "-    num_embeddings: 800_000_000"
    assert len(changed) == 2


def test_keys_are_removed_and_the_rest_stays(emplace_here: Emplace, tmp_path: Path) -> None:
    """Constraints that nothing keeps: the fix is to remove them."""
    text = BLOCK.replace("800_000_000", "1000").replace("- hbm", "- remote")
    path = repository(tmp_path, "big.yaml", text)
    (paste,) = [each for each in found(emplace_here, "models/big.yaml", "--host", "dgx-h100")["pastes"] if "constraints" in each["change"]]
    apply(tmp_path, paste["patch"])
    assert path.read_text() == text.replace("    constraints:\n      tiers:\n        - remote\n", "")


def test_sarif_carries_the_same_change(emplace_here: Emplace, tmp_path: Path) -> None:
    path = repository(tmp_path, "big.yaml", BLOCK)
    report = json.loads(emplace_here("check", "models/big.yaml", "--host", "dgx-h100", *HOST, "--format", "sarif").stdout)
    (result,) = report["runs"][0]["results"]
    pastes = [paste for paste in found(emplace_here, "models/big.yaml", "--host", "dgx-h100")["pastes"] if paste["patch"]]
    assert len(result["fixes"]) == len(pastes)
    for fix, paste in zip(result["fixes"], pastes, strict=True):
        (change,) = fix["artifactChanges"]
        assert change["artifactLocation"]["uri"] == "models/big.yaml"
        path.write_text(BLOCK)
        apply(tmp_path, paste["patch"])
        assert replaced(BLOCK, change["replacements"]) == path.read_text()


def replaced(text: str, replacements: list[dict[str, Any]]) -> str:
    """As SARIF means it: lines and columns from 1, the end behind the last character."""
    lines = text.splitlines(keepends=True)
    for each in reversed(replacements):
        region = each["deletedRegion"]
        first, last = region["startLine"] - 1, region["endLine"] - 1
        end = lines[last][region["endColumn"] - 1 :] if last < len(lines) else ""
        lines[first : last + 1] = [lines[first][: region["startColumn"] - 1] + each["insertedContent"]["text"] + end]
    return "".join(lines)


def test_a_host_file_is_patched_and_an_option_is_a_flag(emplace_here: Emplace, tmp_path: Path) -> None:
    repository(tmp_path, "big.yaml", BLOCK)
    host = builtin_host("dgx-h100").to_data() | {"name": "ours"}
    (tmp_path / "host.yaml").write_text("# ours\n" + yaml.safe_dump(host))
    pastes = found(emplace_here, "models/big.yaml", "--host", "host.yaml")["pastes"]
    by_file = {paste["file"]: paste for paste in pastes}
    assert set(by_file) == {None, "models/big.yaml", "host.yaml"}
    flag = next(paste["flag"] for paste in pastes if "use system memory too" in paste["change"])
    assert flag == "--tiers hbm,ddr"
    apply(tmp_path, by_file["host.yaml"]["patch"])
    changed = yaml.safe_load((tmp_path / "host.yaml").read_text())
    assert changed["node"]["devices"][0].pop("hbm_capacity") != host["node"]["devices"][0].pop("hbm_capacity")
    assert changed == host
    assert found(emplace_here, "models/big.yaml", "--host", "host.yaml")["fits"] is True


def test_why_says_how_long_the_step_is_with_each_fix_and_shows_the_patches(emplace_here: Emplace, tmp_path: Path) -> None:
    repository(tmp_path, "big.yaml", FLOW)
    text = emplace_here("check", "models/big.yaml", "--host", "dgx-h100", *HOST, "--why").stdout
    assert text.count("verified by solving with it") == text.count("; then the step takes ") > 2
    patch = text[text.index("diff --git") :].partition("git apply, to ")[0].rstrip() + "\n"
    apply(tmp_path, patch)
    assert found(emplace_here, "models/big.yaml", "--host", "dgx-h100")["fits"] is True
