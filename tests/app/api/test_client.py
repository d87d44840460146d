"""`emplace.Client` and `AsyncClient` against the service, and a worker of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

import emplace
from emplace.app.cli.main import exit_code
from emplace.app.database import keys
from emplace.app.database.connection import Database
from emplace.app.database.keys import AccessScope
from emplace.placement.model import ModelSpec
from tests.app.asking import ONLY_SQLITE, StartWorker, wait_for
from tests.app.questions import a_host, model_data
from tests.prices import bandwidth_prices

pytestmark = ONLY_SQLITE
HOST = "cpu-dual-socket"


def check_against_a_stored_plan(address: str, folder: Path) -> None:
    """`emplace check --against` its address: the same model is unchanged, another size of it is compared."""
    kinds = []
    for batch in (model_data()["local_batch_size"], 2 * model_data()["local_batch_size"]):
        (folder / "model.json").write_text(json.dumps(model_data() | {"local_batch_size": batch}))
        asked = ["check", str(folder / "model.json"), "--host", HOST, "--work-limit", "2", "--against", address]
        assert exit_code([*asked, "--report", f"json={folder / 'report.json'}"]) == 0
        [check] = json.loads((folder / "report.json").read_text())["checks"]
        assert check["change"]["against"] == address
        kinds.append(check["change"]["kind"])
    assert kinds == ["unchanged", "changed"]


def test_a_plan_is_asked_for_waited_for_and_forgotten(api: httpx.Client, start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker()
    model = ModelSpec.model_validate(model_data())
    with emplace.Client(str(api.base_url)) as client:
        submitted = client.submit(model, HOST, seed=1, work_limit=2.0)
        assert (submitted.state, submitted.plan) == ("queued", None)
        plan = client.plan(model, HOST, work_limit=2.0)
        assert (plan.status, plan.question.model) == ("optimal", model)
        checked = client.check(model_data(), HOST, budgets={"max_step_time_us": 1e9}, work_limit=2.0)
        assert checked.fits
        assert client.store_cost_model(bandwidth_prices(a_host()))
        stored = next(each for each in api.get("/v1/plans").json()["items"] if each["id"] != submitted.id)
        assert client.get_plan(stored["id"]).plan == plan
        check_against_a_stored_plan(f"{api.base_url}/plans/{stored['id']}", tmp_path)
        with pytest.raises(emplace.ToolError, match="answered 409: the plan is done"):
            client.cancel(stored["id"])
        client.delete(stored["id"])
        with pytest.raises(emplace.ToolError, match="answered 404"):
            client.get_plan(stored["id"])
    wait_for(api, submitted.id, "done")

    async def ask() -> emplace.Plan:
        async with emplace.AsyncClient(str(api.base_url)) as client:
            with pytest.raises(emplace.ToolError, match=r"answered 409: the plan is for cpu-dual-socket"):
                await client.run(submitted.id)
            return await client.plan(model_data(), HOST, work_limit=2.0)

    assert asyncio.run(ask()).tables == plan.tables


def test_what_is_refused_or_takes_too_long_is_an_error_with_the_services_words(api: httpx.Client) -> None:
    with emplace.Client(str(api.base_url)) as client:
        with pytest.raises(emplace.ToolError, match=r"answered 422: body: /options/gap"):
            client.submit(model_data(), HOST, gap=7)
        with pytest.raises(emplace.ToolError, match=r"is still queued after 1 s; is a worker running\?"):
            client.plan(model_data(), HOST, timeout_s=1.0)
    with emplace.Client("http://127.0.0.1:9") as nobody, pytest.raises(emplace.ToolError, match=r"127\.0\.0\.1:9"):
        nobody.get_plan("x")


def test_it_sends_its_key(guarded: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.writing() as session:
        key = keys.make(session, "ci", AccessScope.PLAN)
    with emplace.Client(str(guarded.base_url)) as client, pytest.raises(emplace.ToolError, match="answered 401"):
        client.submit(model_data(), HOST)
    with emplace.Client(str(guarded.base_url), key) as client:
        assert client.submit(model_data(), HOST).state == "queued"
    monkeypatch.setenv("EMPLACE_API_KEY", key)
    with emplace.Client(str(guarded.base_url)) as client:
        assert client.submit(model_data(), HOST).state == "queued"
