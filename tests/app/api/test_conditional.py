"""What a client has already is not sent again, and what is sent is packed."""

from __future__ import annotations

import httpx
import pytest

from emplace.app.database.connection import Database
from tests.app.asking import ask_small
from tests.app.finished import finish_plan, measurement_of, store_run


def test_a_plan_that_did_not_change_is_not_sent_again(api: httpx.Client, database: Database) -> None:
    plan_id = ask_small(api)
    path = f"/v1/plans/{plan_id}"
    queued = api.get(path)
    assert api.get(path, headers={"If-None-Match": queued.headers["etag"]}).status_code == 304
    plan = finish_plan(database, plan_id)
    done = api.get(path, headers={"If-None-Match": queued.headers["etag"]})
    assert (done.status_code, done.json()["plan"]) == (200, plan.to_data())
    for known in (done.headers["etag"], f'"other", {done.headers["etag"]}', done.headers["etag"].removeprefix("W/"), "*"):
        unchanged = api.get(path, headers={"If-None-Match": known})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", done.headers["etag"])
    store_run(database, plan_id, measurement_of(plan))
    measured = api.get(path, headers={"If-None-Match": done.headers["etag"]})
    assert (measured.status_code, measured.json()["measured"]["verified"]) == (200, True)


@pytest.mark.parametrize("form", ["json", "torchrec"])
def test_so_is_an_export(api: httpx.Client, database: Database, form: str) -> None:
    plan_id = ask_small(api)
    path = f"/v1/plans/{plan_id}/export?format={form}"
    assert api.get(path, headers={"If-None-Match": "*"}).status_code == 409
    finish_plan(database, plan_id)
    tag = api.get(path).headers["etag"]
    assert api.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_large_answers_are_packed_for_who_takes_that(api: httpx.Client, database: Database) -> None:
    plan_id = ask_small(api)
    finish_plan(database, plan_id)
    packed = api.get(f"/v1/plans/{plan_id}")
    plain = api.get(f"/v1/plans/{plan_id}", headers={"Accept-Encoding": "identity"})
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) < len(plain.content) / 2


@pytest.mark.parametrize(
    ("accepted", "packs"),
    [("GZIP", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("identity, gzip; q=0.000", False), ("gzipped", False)],
)
def test_who_takes_gzip_says_so_in_any_case_and_with_weight(api: httpx.Client, database: Database, accepted: str, packs: bool) -> None:
    plan_id = ask_small(api)
    finish_plan(database, plan_id)
    for path in (f"/v1/plans/{plan_id}", f"/plans/{plan_id}", "/openapi.json"):
        answer = api.get(path, headers={"Accept-Encoding": accepted})
        assert (answer.headers.get("content-encoding") == "gzip") == packs, path
        assert answer.headers.get_list("vary") == ["Accept-Encoding"]
    unchanged = api.get(f"/v1/plans/{plan_id}", headers={"Accept-Encoding": accepted, "If-None-Match": "*"})
    assert (unchanged.status_code, unchanged.headers.get_list("vary")) == (304, ["Accept-Encoding"])


def test_so_is_the_description_of_the_api(api: httpx.Client) -> None:
    described = api.get("/openapi.json")
    assert described.json()["openapi"].startswith("3.")
    unchanged = api.get("/openapi.json", headers={"If-None-Match": described.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
