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


@ONLY_SQLITE
def test_bodies_put_together_of_the_examples_of_fields_are_accepted(api: httpx.Client) -> None:
    """As `schemathesis run` does in its phase of examples: rules between fields hold for the examples of the fields, too."""
    size, rate, flops = "40GiB", "900GB/s", "15.7TFLOP/s"
    schemas = api.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["Node"]["properties"]["ddr_capacity"]["examples"] == [size]
    (reserve,) = schemas["Node"]["properties"]["ddr_reserve"]["examples"]
    device = {"kind": "0", "type": "cuda", "count": 1, "memory_bandwidth": rate, "fp32_flops": flops}
    memory = {"hbm_capacity": size, "hbm_reserve": reserve, "system_link": rate}
    for key, kind in (
        ("baseline", "Budgets"),
        ("start", "PlanOptions"),
        ("throughput", "SizeRequest"),
        ("steps", "CurvePoint"),
        ("hbm_capacity", "DeviceKind"),
    ):
        assert sum(key in way["properties"] for way in schemas[kind]["anyOf"]) == 2, kind
    node = {"devices": [device | memory], "ddr_capacity": size, "ddr_reserve": reserve, "intra_node_link": rate, "network": rate}
    host = {"schema_version": 1, "name": "0", "node": node}
    nulls = {"time_limit": None, "work_limit": None, "start": None}
    for path, body in (("plans", {"host": host}), ("studies", {"kind": "recommend", "hosts": [host]})):
        answer = api.post(f"/v1/{path}", json={"model": "ncf", "options": nulls} | body)
        assert answer.status_code == 202, answer.text
