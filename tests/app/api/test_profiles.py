"""Cost models over HTTP: stored, listed, and used for their own machine alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event

from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.app.database.tables import ProfileRow
from emplace.local_store import local_cost_models
from emplace.placement.cost_model import CostModel, CostSource
from emplace.planning import resolve_host
from tests.app.asking import ONLY_SQLITE
from tests.app.questions import model_data
from tests.prices import bandwidth_prices


def measured(ranks: int, fingerprint: str | None = None) -> dict[str, Any]:
    """The datasheet's figures, as if they were measured on this machine."""
    host = resolve_host("local")
    model = bandwidth_prices(host)
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


def test_a_deleted_profile_prices_no_more_plans(api: httpx.Client, query: Callable[[str], list[tuple[object, ...]]]) -> None:
    profile = api.post("/v1/profiles", json={"cost_model": measured(ranks=2)}, headers={"Idempotency-Key": "once"}).json()
    assert ask(api)["cost_source"] == "measured"
    assert api.delete(f"/v1/profiles/{profile['id']}").status_code == 204
    assert ask(api)["cost_source"] == "datasheet"
    for answer in (api.get(f"/v1/profiles/{profile['id']}"), api.delete(f"/v1/profiles/{profile['id']}")):
        assert answer.status_code == 404
    assert query("SELECT count(*) FROM idempotency_keys") == [(0,)]


FROM_ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}
"""As a proxy on this machine says who asks."""


def test_a_machines_cost_model_is_not_taken_from_strangers(api: httpx.Client) -> None:
    refused = api.post("/v1/profiles", json={"cost_model": measured(ranks=2)}, headers=FROM_ELSEWHERE)
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
    assert "EMPLACE_COST_MODELS_FROM" in refused.json()["detail"]
    assert ask(api)["cost_source"] == "datasheet"
    of_no_machine = {key: value for key, value in measured(ranks=2).items() if key != "fingerprint"} | {"source": "datasheet"}
    assert api.post("/v1/profiles", json={"cost_model": of_no_machine}, headers=FROM_ELSEWHERE).status_code == 201


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_COST_MODELS_FROM", "anyone")


def test_it_is_where_that_is_said(trusting: None, api: httpx.Client) -> None:
    del trusting
    assert api.post("/v1/profiles", json={"cost_model": measured(ranks=2)}, headers=FROM_ELSEWHERE).status_code == 201


@ONLY_SQLITE
def test_a_price_is_a_number_within_reason(api: httpx.Client) -> None:
    pointers = ("/step_overhead_us", "/all_reduce/fixed_us", "/kernels/0/forward/per_lookup_us")
    for pointer, value in product(pointers, (False, True, "1.5", 1e308, 1.1e12, -1, None)):
        model = put(measured(ranks=2), pointer, value)
        for path, body in (("/v1/profiles", {}), ("/v1/plans", {"model": model_data(), "host": "local"})):
            refused = api.post(path, json=body | {"cost_model": model})
            assert refused.status_code == 422
            assert f"/cost_model{pointer}" in [error["pointer"] for error in refused.json()["errors"]]


def put(data: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    *parents, last = pointer.strip("/").split("/")
    place: Any = data
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return data


@ONLY_SQLITE
def test_figures_of_a_cost_model_are_numbers(api: httpx.Client) -> None:
    for key, value in product(("ranks", "ranks_per_core", "noise", "drift"), (True, "2")):
        refused = api.post("/v1/profiles", json={"cost_model": measured(ranks=2) | {key: value}})
        assert [error["pointer"] for error in refused.json()["errors"]] == [f"/cost_model/{key}"]


def test_what_lists_name_is_found(api: httpx.Client) -> None:
    """By its name, of several that share it the newest plan's; and each by its digest."""
    host = api.get("/v1/hosts/zion").json() | {"name": "mine"}
    older = ask(api, model=model_data(tables=4), host=host, options={})
    newer = ask(api, host=host, options={})
    assert older["model"]["digest"] != newer["model"]["digest"]
    for kind in ("models", "hosts"):
        listed = api.get(f"/v1/{kind}").json()["items"]
        assert {"stored", "built-in"} <= {entry["source"] for entry in listed}
        for entry in listed:
            document = api.get(f"/v1/{kind}/{entry['digest']}")
            assert document.status_code == 200, entry
            assert document.json()["name"] == entry["name"]
            assert api.get(f"/v1/{kind}/{entry['name']}").json()["name"] == entry["name"]
    assert len(api.get("/v1/models/small").json()["tables"]) == 3
    again = {"model": api.get(f"/v1/models/{older['model']['digest']}").json(), "host": api.get("/v1/hosts/mine").json(), "options": {}}
    assert api.post("/v1/plans", json=again).json()["id"] == older["id"]


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
    assert len(resources) == 20
    assert {key: value for key, value in resources.items() if value} == {("plans", "queued"): 1}
    assert [each.value for each in families["emplace_workers"].samples] == [0]


@ONLY_SQLITE
def test_the_page_of_all_profiles_reads_no_document(api: httpx.Client, database: Database) -> None:
    asked: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda _, __, statement, *___: asked.append(statement))
    assert api.get("/profiles").status_code == 200
    (query,) = [statement for statement in asked if "FROM profiles" in statement]
    assert "profiles.document" not in query
