"""`import emplace` as a program uses it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import emplace
from emplace.placement.catalog import builtin_host, builtin_model


def test_a_plan_from_names_from_documents_from_data_and_from_files_is_one(tmp_path: Path) -> None:
    model, host = builtin_model("rm1"), builtin_host("big-basin-32g")
    path = tmp_path / "model.json"
    path.write_text(model.canonical_json())
    plans = [emplace.plan(each, host, tiers=["hbm"], seed=3) for each in ("rm1", model, model.to_data(), path, str(path))]
    assert len({(plan.model.digest, plan.step_time_us, plan.tables) for plan in plans}) == 1
    assert emplace.plan(model, "big-basin-32g", tiers=["hbm"], seed=3).question == plans[0].question


def test_a_plan_is_sound_and_one_that_was_tampered_with_is_not(tmp_path: Path) -> None:
    plan = emplace.plan("ncf", "dgx-a100-40g")
    assert emplace.audit(plan) == []
    path = tmp_path / "plan.json"
    path.write_text(plan.canonical_json())
    assert emplace.read_plan(path) == plan
    assert plan.step_time_us is not None
    assert emplace.audit(plan.model_copy(update={"step_time_us": plan.step_time_us / 2}))


@pytest.mark.parametrize(
    ("budgets", "fits", "verdict"),
    [
        ({}, True, "fits"),
        ({"max_step_time_us": 1.0}, False, "over_budget"),
        ({"min_throughput": 1.0}, True, "fits"),
    ],
)
def test_a_check_holds_a_model_against_budgets(budgets: dict[str, Any], fits: bool, verdict: str) -> None:
    found = emplace.check("ncf", "dgx-a100-40g", **budgets)
    assert (found.fits, found.verdict) == (fits, verdict)


def test_a_check_ends_when_the_answer_is_certain_unless_the_best_plan_is_asked_for() -> None:
    first = emplace.check("m1", "big-basin-32g", work_limit=3600.0)
    assert (first.fits, first.stopped_by) == (True, "target")
    within = emplace.check("m1", "big-basin-32g", max_step_time_us=15_000.0, work_limit=3600.0)
    assert (within.fits, within.stopped_by) == (True, "target")
    beyond = emplace.check("m1", "big-basin-32g", max_step_time_us=14_000.0, work_limit=3600.0)
    assert (beyond.fits, beyond.stopped_by) == (False, "target")
    best = emplace.check("rm1", "big-basin-32g", plan=True, work_limit=0.2)
    assert best.stopped_by in ("gap", "exact", "limit")


def test_a_check_of_what_does_not_fit_says_why() -> None:
    found = emplace.check("m3", "big-basin-32g", tiers=["hbm"])
    assert found.fits is False
    assert found.explanation is not None
    assert found.explanation.reasons


def test_a_check_against_a_baseline() -> None:
    plan = emplace.plan("ncf", "dgx-a100-40g")
    assert emplace.check("ncf", "dgx-a100-40g", baseline=plan, max_regression=1.0).fits is True
    with pytest.raises(emplace.InvalidDocument):
        emplace.check("ncf", "dgx-a100-40g", baseline=plan)


def test_a_monitor_hears_of_the_solve_and_ends_it() -> None:
    seen: list[emplace.Progress] = []
    plan = emplace.plan("m1", "zion", monitor=emplace.Monitor.of(seen.append, lambda: len(seen) > 2), work_limit=3600.0)
    assert seen
    assert plan.solver.stopped_by == "cancelled"


def test_errors_are_one_tree() -> None:
    with pytest.raises(emplace.UnknownName, match="no built-in host"):
        emplace.plan("m1", "nowhere")
    with pytest.raises(emplace.InvalidDocument, match="work_limit"):
        emplace.plan("m1", "zion", work_limit="soon")
    with pytest.raises(emplace.EmplaceError, match="schema_version"):
        emplace.read_model({"name": "m"})
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        emplace.plans  # noqa: B018


@pytest.mark.parametrize(
    "study",
    [
        lambda: emplace.recommend("ncf", []),
        lambda: emplace.size("ncf", [], throughput="1k"),
        lambda: emplace.batch("ncf", [], [64, 128]),
        lambda: emplace.sweep("ncf", [], ["/local_batch_size=64,128"]),
    ],
)
def test_a_study_of_no_hosts_is_refused(study: Callable[[], object]) -> None:
    with pytest.raises(emplace.InvalidDocument, match="must be one host or more"):
        study()


def test_every_name_that_is_listed_is_there() -> None:
    for name in emplace.__all__:
        assert getattr(emplace, name) is not None
    assert emplace.__version__
    assert set(emplace.__all__) <= set(dir(emplace))


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import emplace", "torch fastapi sqlalchemy ortools numpy pydantic"),
        ("import emplace; emplace.read_model('m1')", "torch fastapi sqlalchemy ortools highspy"),
        ("import emplace; emplace.plan('ncf', 'zion')", "torch fastapi sqlalchemy"),
    ],
)
def test_what_is_imported_is_light(program: str, heavy: str) -> None:
    code = f"{program}; import sys; print(*(set({heavy!r}.split()) & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_a_bound_of_launches_is_proven_without_weights() -> None:
    found = emplace.plan("ncf", "dgx-h100", ranks=2, work_limit=0.1, proof=True)
    assert found.solver.bound == "launches"
    assert found.proof is not None
    assert found.proof.bound_us == found.lower_bound_us
    assert found.proof.trainers.weights == ()
    assert emplace.audit(found, proof=True) == []
    more = found.model_copy(update={"proof": found.proof.model_copy(update={"bound_us": (found.lower_bound_us or 0.0) * 1.01})})
    assert emplace.audit(more, proof=True) != []
