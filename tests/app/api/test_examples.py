"""Each example of the OpenAPI page is a request that is accepted, and no body is without one."""

from __future__ import annotations

from typing import Any

import httpx

from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.planning import resolve_host
from tests.app.asking import ONLY_SQLITE
from tests.app.finished import finish_plan
from tests.app.questions import model_data

POSTED_WITHOUT_A_BODY = {"cancel_plan", "cancel_run", "cancel_profile", "cancel_pipeline", "cancel_study"}


@ONLY_SQLITE
def test_every_example_is_accepted(api: httpx.Client, database: Database) -> None:
    with database.writing() as session:
        workers.register(session, "here", resolve_host("local"))
    plan_id = api.post("/v1/plans", json={"model": model_data(), "host": "local", "options": {"ranks": 2}}).json()["id"]
    finish_plan(database, plan_id)
    posted = 0
    for path, operations in api.get("/openapi.json").json()["paths"].items():
        operation: dict[str, Any] | None = operations.get("post")
        if operation is None or any(operation["operationId"].startswith(name) for name in POSTED_WITHOUT_A_BODY):
            continue
        examples = operation["requestBody"]["content"]["application/json"]["examples"]
        assert examples, path
        for name, example in examples.items():
            with database.writing() as session:
                workers.beat(session, "here")
            answer = api.post(path.replace("{plan_id}", plan_id), json=example["value"])
            assert answer.status_code in (200, 201, 202), (path, name, answer.text)
            posted += 1
    assert posted >= 11
