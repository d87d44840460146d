"""Cost models over HTTP: stored, listed, and used for their own machine alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.app.database.tables import ProfileRow
from emplace.local_store import local_cost_models
from emplace.placement.cost_model import CostModel, CostSource, datasheet_cost_model
from emplace.planning import resolve_host
from tests.app.questions import model_data


def measured(ranks: int, fingerprint: str | None = None) -> dict[str, Any]:
    """The datasheet's figures, as if they were measured on this machine."""
    host = resolve_host("local")
    model = datasheet_cost_model(host)
    return model.model_copy(
        update={"source": CostSource.MEASURED, "fingerprint": fingerprint or host.fingerprint, "ranks": ranks}
    ).to_data()


def ask(api: httpx.Client, **changes: Any) -> dict[str, Any]:
    plan: dict[str, Any] = api.post("/v1/plans", json={"model": model_data(), "host": "local", "options": {"ranks": 2}} | changes).json()
    return plan


def test_an_uploaded_model_prices_this_machine(api: httpx.Client) -> None:
    before = ask(api)
    response = api.post("/v1/profiles", json={"cost_model": measured(ranks=2)})
    assert response.status_code == 201
    profile = response.json()
    assert api.get(response.headers["location"]).json() == profile
    assert (profile["state"], profile["source"], profile["ranks"]) == ("done", "measured", 2)
    after = ask(api)
    assert (before["cost_source"], after["cost_source"]) == ("datasheet", "measured")
    assert after["id"] != before["id"]
    assert ask(api, host="zion", options={})["cost_source"] == "datasheet"


def test_the_services_own_home_prices_this_machine_until_its_database_does(api: httpx.Client) -> None:
    local_cost_models().keep(CostModel.model_validate(measured(ranks=2)))
    from_home = ask(api)
    assert from_home["cost_source"] == "measured"
    stored = measured(ranks=2) | {"step_overhead_us": 1234.0}
    assert api.post("/v1/profiles", json={"cost_model": stored}).status_code == 201
    assert ask(api)["id"] != from_home["id"]


def test_a_model_that_another_version_stored_is_to_be_measured_again(api: httpx.Client, database: Database) -> None:
    profile = api.post("/v1/profiles", json={"cost_model": measured(ranks=2)}).json()
    with database.writing() as session:
        row = session.get_one(ProfileRow, profile["id"])
        row.document = str(row.document).replace('"step_overhead_us"', '"overhead_us"')
    refused = api.post("/v1/plans", json={"model": model_data(), "host": "local", "options": {"ranks": 2}})
    assert refused.status_code == 422
    assert profile["id"] in refused.text
    assert "measure this machine again" in refused.text


def test_another_machines_model_is_kept_but_never_used(api: httpx.Client) -> None:
    other = measured(ranks=2, fingerprint="sha256:another-machine")
    assert api.post("/v1/profiles", json={"cost_model": other}).status_code == 201
    assert ask(api)["cost_source"] == "datasheet"
    refused = api.post("/v1/plans", json={"model": model_data(), "host": "local", "cost_model": other})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/cost_model/fingerprint"
    listed = api.get("/v1/profiles", params={"fingerprint": "sha256:another-machine"}).json()["items"]
    assert [profile["cost_model"]["fingerprint"] for profile in listed] == ["sha256:another-machine"]
    assert api.get("/v1/profiles", params={"fingerprint": "sha256:nobody"}).json() == {"items": [], "next": None}


def test_measuring_is_queued_for_the_machine_and_can_be_cancelled(api: httpx.Client, database: Database) -> None:
    assert api.post("/v1/profiles", json={}).status_code == 409
    with database.writing() as session:
        workers.register(session, "worker", resolve_host("local"))
    response = api.post("/v1/profiles", json={"ranks": 2, "seed": 3})
    assert response.status_code == 202
    assert (response.json()["state"], response.json()["host_name"], response.json()["cost_model"]) == ("queued", "local", None)
    assert api.post(f"/v1/profiles/{response.json()['id']}/cancel").json()["state"] == "cancelled"


def test_a_bad_cost_model_is_named(api: httpx.Client) -> None:
    bad = measured(ranks=2) | {"step_overhead_us": -1}
    response = api.post("/v1/profiles", json={"cost_model": bad})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/cost_model/step_overhead_us"


def test_the_catalog_lists_what_can_be_named_and_what_is_stored(api: httpx.Client) -> None:
    ask(api)
    models = {entry["name"]: entry for entry in api.get("/v1/models").json()["items"]}
    assert (models["m1"]["source"], models["small"]["source"], models["small"]["plans"]) == ("built-in", "stored", 1)
    hosts = {entry["name"]: entry for entry in api.get("/v1/hosts").json()["items"]}
    assert (hosts["zion"]["source"], hosts["local"]["source"], hosts["local"]["plans"]) == ("built-in", "discovered", 1)
    assert (
        ask(api, model=api.get("/v1/models/ncf").json(), host="zion", options={})["id"]
        == ask(api, model="ncf", host="zion", options={})["id"]
    )


def test_the_catalog_is_paged(api: httpx.Client) -> None:
    ask(api)
    for path in ("/v1/models", "/v1/hosts"):
        whole = api.get(path).json()
        assert whole["next"] is None
        seen, parameters = [], {"limit": 3}
        while True:
            page = api.get(path, params=parameters).json()
            assert 1 <= len(page["items"]) <= 3
            seen += page["items"]
            if page["next"] is None:
                break
            parameters["cursor"] = page["next"]
        assert seen == whole["items"]
        for cursor in ("zz", "0" * 32):
            refused = api.get(path, params={"cursor": cursor})
            assert refused.status_code == 422
            assert [error["pointer"] for error in refused.json()["errors"]] == ["/cursor"]


def test_health(api: httpx.Client) -> None:
    ask(api)
    assert api.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("accept", "media_type", "read"),
    [
        ("*/*", "text/plain", text_string_to_metric_families),
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text", openmetrics.text_string_to_metric_families),
    ],
)
def test_metrics_are_what_prometheus_reads(api: httpx.Client, accept: str, media_type: str, read: Callable[[str], Any]) -> None:
    ask(api)
    response = api.get("/metrics", headers={"Accept": accept})
    assert response.headers["content-type"].startswith(media_type)
    families = {family.name: family for family in read(response.text)}
    resources = {(each.labels["kind"], each.labels["state"]): each.value for each in families["emplace_resources"].samples}
    assert len(resources) == 15
    assert {key: value for key, value in resources.items() if value} == {("plans", "queued"): 1}
    assert [each.value for each in families["emplace_workers"].samples] == [0]
