"""`emplace plan --proof` and `emplace audit --proof`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emplace.placement.certificate import Proof
from tests.app.cli.command import QUICK, Emplace, write_model

ASKED = ("small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK)


@pytest.fixture
def proven(emplace_here: Emplace, tmp_path: Path) -> Callable[..., Path]:
    """A plan of `small` with its proof, changed if asked to."""

    def plan(change: Callable[[Any], object] = lambda _: None, *more: str, **model: Any) -> Path:
        write_model(tmp_path / "small.json", **model)
        emplace_here("plan", *ASKED, *more, "--proof", "--out", "plan.json")
        data = json.loads((tmp_path / "plan.json").read_text())
        change(data)
        (tmp_path / "plan.json").write_text(json.dumps(data))
        return tmp_path / "plan.json"

    return plan


def _too_large() -> dict[str, Any]:
    features = [{"name": "user", "length": {"fixed": 1}}]
    return {"tables": [{"name": "users", "num_embeddings": 10**10, "embedding_dim": 64, "features": features}]}


def test_a_proof_is_made_and_verified(emplace_here: Emplace, proven: Callable[..., Path]) -> None:
    plan = proven()
    done = emplace_here("audit", plan, "--proof")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "proof: holds, no step is shorter than" in done.stdout
    assert "claimed" not in done.stdout
    said = json.loads(emplace_here("audit", plan, "--proof", "--format", "json").stdout)["proof"]
    claimed = json.loads(plan.read_text())["lower_bound_us"]
    assert said["shows_us"] >= claimed * (1 - 1e-6)
    assert (said["holds"], said["shows_all_claims"], said["claims_us"], said["shows_no_placement"]) == (True, True, claimed, False)


def test_a_proof_of_more_than_its_weights_show_is_a_violation(emplace_here: Emplace, proven: Callable[..., Path]) -> None:
    plan = proven(lambda data: data["proof"].update(bound_us=data["step_time_us"] * 1.1))
    assert emplace_here("audit", plan).returncode == 0
    done = emplace_here("audit", plan, "--proof")
    assert done.returncode == 1
    assert "/proof/trainers: " in done.stdout
    assert "1 violation" in done.stdout
    said = json.loads(emplace_here("audit", plan, "--proof", "--format", "json").stdout)
    assert (said["sound"], said["proof"]["holds"], "shows_us" in said["proof"]) == (False, False, False)


def test_what_is_claimed_beyond_the_proof_is_said(emplace_here: Emplace, proven: Callable[..., Path]) -> None:
    plan = proven(lambda data: data["proof"].update(bound_us=200.0))
    done = emplace_here("audit", plan, "--proof")
    assert done.returncode == 0
    claimed = json.loads(plan.read_text())["lower_bound_us"]
    assert (
        f"claimed: no step is shorter than {claimed:,.3f} us, of which the proof shows: no step is shorter than 200.000 us" in done.stdout
    )


def test_infeasibility_is_proven_or_left_open(emplace_here: Emplace, proven: Callable[..., Path]) -> None:
    done = emplace_here("audit", proven(lambda _: None, **_too_large()), "--proof")
    assert (done.returncode, "proof: holds, there is no placement" in done.stdout) == (0, True)
    done = emplace_here("audit", proven(lambda data: data["proof"].update(bound_us=1.0), **_too_large()), "--proof")
    assert done.returncode == 3
    assert "claimed: there is no placement, of which the proof shows: no step is shorter than 1.000 us" in done.stdout
    done = emplace_here("audit", proven(lambda data: data["proof"].pop("bound_us")), "--proof")
    assert (done.returncode, "is to prove that there is no placement" in done.stdout) == (1, True)


def test_a_plan_without_a_proof_says_what_to_do(emplace_here: Emplace, small_plan: Path) -> None:
    done = emplace_here("audit", small_plan, "--proof")
    assert done.returncode == 2
    assert "/proof: is missing: plan again with 'emplace plan --proof'" in done.stderr


def test_the_fewest_devices_have_no_proof(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    done = emplace_here("plan", *ASKED, "--proof", "--objective", "devices")
    assert done.returncode == 2
    assert "/objective" in done.stderr


@pytest.mark.parametrize("asked", [("criteo-kaggle", "--host", "dgx-h100"), ("m2", "--host", "cpu-dual-socket")])
def test_built_in_models_are_proven(emplace_here: Emplace, tmp_path: Path, asked: tuple[str, ...]) -> None:
    assert emplace_here("plan", *asked, "--work-limit", "0.1", "--proof", "--out", "plan.json").returncode == 0
    done = emplace_here("audit", "plan.json", "--proof")
    assert (done.returncode, "claimed" in done.stdout) == (0, False)
    proof = Proof.model_validate(json.loads((tmp_path / "plan.json").read_text())["proof"])
    assert len(proof.canonical_json()) < 20_000
