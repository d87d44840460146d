"""POST /v1/checks: the synchronous gate."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from emplace.app.database.connection import Database
from emplace.gate import CheckResult
from emplace.placement.reading import from_data
from tests.app.cli.command import run_emplace
from tests.app.finished import finish_plan
from tests.app.processes import step_processes, wait_until
from tests.app.questions import BUSY_HOST, BUSY_OPTIONS, QUICK_OPTIONS, busy_model_data, model_data

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

QUESTION = {"model": model_data(), "host": "cpu-dual-socket", "options": QUICK_OPTIONS | {"ranks": 2}}


def check(api: httpx.Client, **changes: Any) -> dict[str, Any]:
    response = api.post("/v1/checks", json=QUESTION | changes)
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    from_data(result, CheckResult, source="check")
    return result


def test_what_fits_is_solved_and_not_stored(api: httpx.Client) -> None:
    result = check(api, budgets={"max_step_time_us": 1e9})
    assert (result["fits"], result["verdict"]) == (True, "fits")
    assert result["budgets"][0]["kept"] is True
    assert api.get("/v1/plans").json()["items"] == []


def test_a_stack_prices_the_question_and_a_budget_says_how_sure_it_is(api: httpx.Client) -> None:
    on_gpus = {"host": "dgx-h100"}
    eager, graph = (check(api, stack=name, **on_gpus) for name in ("torchrec-eager", "hugectr-graph"))
    assert graph["step_time_us"] < eager["step_time_us"]
    fast_us, slow_us = eager["step_range_us"]
    sure, unsure = (check(api, **on_gpus, budgets={"max_step_time_us": slow_us * 0.99, "sure": must}) for must in (None, True))
    assert [each["budgets"][0]["sure"] for each in (sure, unsure)] == [False, False]
    assert [each["fits"] for each in (sure, unsure)] == [True, None]
    assert fast_us < slow_us


@pytest.mark.parametrize(
    ("asked", "pointer", "rule"),
    [
        ({"stack": "no-such"}, "/stack", "hugectr-graph"),
        ({"stack": {"schema_version": 1}}, "/stack/name", "is required"),
        ({"stack": "hugectr-graph"}, "/stack/device", "the trainers of cpu-dual-socket are of type cpu"),
        ({"stack": "cpu-caffe2-like", "cost_model": {}}, "/stack", "goes without a cost_model"),
    ],
)
def test_a_stack_that_can_not_price_the_question_is_refused(api: httpx.Client, asked: dict[str, Any], pointer: str, rule: str) -> None:
    response = api.post("/v1/checks", json=QUESTION | asked)
    assert response.status_code == 422
    errors = {error["pointer"]: error["detail"] for error in response.json()["errors"]}
    assert rule in errors[pointer]


def test_what_is_too_large_is_a_proven_no_with_reasons(api: httpx.Client) -> None:
    host = api.get("/v1/hosts/cpu-dual-socket").json()
    host["node"] |= {"ddr_capacity": "24MiB", "ddr_reserve": "1MiB"}
    host.pop("remote_servers", None)
    model = model_data()
    model["tables"][0]["num_embeddings"] = 10_000_000
    result = check(api, host=host, model=model)
    assert result["fits"] is False
    assert result["explanation"]["reasons"]


def test_a_stored_answer_is_held_against_the_budgets(api: httpx.Client, database: Database) -> None:
    plan = finish_plan(database, api.post("/v1/plans", json=QUESTION).json()["id"])
    assert plan.step_time_us is not None
    assert plan.lower_bound_us is not None
    assert check(api, budgets={"max_step_time_us": plan.step_time_us * 1.01})["fits"] is True
    undecided = check(api, budgets={"max_step_time_us": (plan.step_time_us + plan.lower_bound_us) / 2})
    assert (undecided["fits"], undecided["verdict"]) == (None, "undecided")
    assert check(api, budgets={"max_step_time_us": plan.lower_bound_us * 0.99})["fits"] is False


def test_the_best_plan_is_looked_for_where_it_is_asked_for(api: httpx.Client) -> None:
    first, best = check(api), check(api, plan=True)
    assert first["stopped_by"] == "target"
    assert best["stopped_by"] != "target"
    assert best["step_time_us"] <= first["step_time_us"]


@pytest.mark.parametrize("plan", [1, "true", None, []])
def test_plan_is_true_or_false(api: httpx.Client, plan: Any) -> None:
    response = api.post("/v1/checks", json=QUESTION | {"plan": plan})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/plan"


def test_bad_budgets_are_named(api: httpx.Client) -> None:
    response = api.post("/v1/checks", json=QUESTION | {"budgets": {"max_step_time_us": -1, "max_cost": 1}})
    assert response.status_code == 422
    assert {error["pointer"] for error in response.json()["errors"]} == {"/budgets/max_step_time_us", "/budgets/max_cost"}


@pytest.mark.parametrize("budgets", [[], "", 0, False, {"max_step_time_us": "1"}, {"max_step_time_us": True}, {"min_throughput": "1"}])
def test_budgets_of_another_type_are_refused(api: httpx.Client, budgets: Any) -> None:
    response = api.post("/v1/checks", json=QUESTION | {"budgets": budgets})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/".join(["", "budgets", *(budgets if isinstance(budgets, dict) else ())])


def test_a_baseline_is_a_plan(api: httpx.Client, database: Database) -> None:
    finish_plan(database, api.post("/v1/plans", json=QUESTION).json()["id"])
    baseline = api.get("/v1/plans").json()["items"][0]["id"]
    baseline = api.get(f"/v1/plans/{baseline}").json()["plan"]
    (kept,) = check(api, budgets={"baseline": baseline, "max_regression": 0})["budgets"]
    assert (kept["rule"], kept["kept"], kept["limit_us"]) == ("max-regression", True, baseline["step_time_us"])
    elsewhere = {"host": "zion", "budgets": {"baseline": baseline, "max_regression": 0}}
    refused = api.post("/v1/checks", json=QUESTION | elsewhere)
    assert refused.status_code == 422
    assert "/budgets/baseline/host/name" in {error["pointer"] for error in refused.json()["errors"]}


def test_watts_that_a_host_does_not_say_are_missed_there(api: httpx.Client) -> None:
    refused = api.post("/v1/checks", json={"model": model_data(), "host": "local", "budgets": {"max_power_w": 1}})
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/host/node/power_w"]


def test_a_baseline_without_a_placement_is_refused(api: httpx.Client, database: Database) -> None:
    plan = finish_plan(database, api.post("/v1/plans", json=QUESTION).json()["id"], infeasible=True)
    response = api.post("/v1/checks", json=QUESTION | {"budgets": {"baseline": plan.to_data(), "max_regression": 5}})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/budgets/baseline"
    assert "is infeasible" in response.json()["detail"]


def test_a_client_that_leaves_takes_its_solve_along(api: httpx.Client) -> None:
    question = {"model": busy_model_data(), "host": BUSY_HOST, "options": BUSY_OPTIONS, "plan": True}

    def leave_early() -> None:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{api.base_url}/v1/checks", json=question, timeout=5)

    client = threading.Thread(target=leave_early)
    client.start()
    wait_until(step_processes, 20)
    client.join()
    wait_until(lambda: not step_processes(), 20)


def test_the_command_asks_a_service_with_a_plan_as_baseline(api: httpx.Client, database: Database, tmp_path: Path) -> None:
    plan = finish_plan(database, api.post("/v1/plans", json=QUESTION).json()["id"])
    (tmp_path / "model.json").write_text(json.dumps(model_data()))
    (tmp_path / "plan.json").write_text(plan.model_dump_json(exclude_none=True))
    question = ("model.json", "--host", "cpu-dual-socket", "--ranks", "2", "--work-limit", "2")
    budget = ("--baseline", "plan.json", "--max-regression", "0")
    done = run_emplace("check", *question, *budget, "--server", str(api.base_url), cwd=tmp_path, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kept: at most 0% over the baseline's step" in done.stdout


def test_the_command_asks_a_service_about_a_stack(api: httpx.Client, tmp_path: Path) -> None:
    asked = ("check", "ncf", "--host", "dgx-h100", "--ranks", "2", "--format", "json", "--stack", "hugectr-graph")
    there, here = (run_emplace(*asked, *server, cwd=tmp_path, home=tmp_path) for server in (("--server", str(api.base_url)), ()))
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout)["checks"][0]["step_time_us"] == json.loads(here.stdout)["checks"][0]["step_time_us"]
