"""One error shape on every route, whatever goes wrong."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import time
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from emplace.app.api.body import MAX_BODY_BYTES
from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.app.logs import say_what_about
from emplace.planning import resolve_host
from tests.app.finished import finish_plan
from tests.app.questions import model_data

UNKNOWN_ID = "0" * 32

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def assert_problem(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert set(problem) == {"type", "title", "status", "detail", "errors"}
    assert problem["status"] == status
    assert problem["detail"]
    for error in problem["errors"]:
        assert set(error) == {"in", "pointer", "detail", "value"}
        assert all(isinstance(value, str) for value in error.values())
    return problem


def every_operation(api: httpx.Client) -> list[tuple[str, str]]:
    paths = api.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, operations in paths.items() for method in operations]


def test_every_route_answers_an_unknown_id_and_a_bad_body_with_a_problem(api: httpx.Client) -> None:
    operations = every_operation(api)
    assert len(operations) > 20
    for method, path in operations:
        url = re.sub(r"{\w*_id}|{name}", UNKNOWN_ID, path)
        if "{" in path:
            assert_problem(api.request(method, url), 404)
        elif method == "POST":
            assert_problem(api.request(method, url, content=b"{", headers={"content-type": "application/json"}), 422)


def test_every_path_refuses_other_methods(api: httpx.Client) -> None:
    for path in {path for _, path in every_operation(api)} | {"/", "/plans/" + UNKNOWN_ID}:
        response = api.request("PUT", re.sub(r"{\w*}", UNKNOWN_ID, path))
        assert_problem(response, 405)
        assert response.headers["allow"]


def test_a_refused_method_is_told_every_other(api: httpx.Client) -> None:
    for path, allowed in (
        ("/v1/plans", "GET, HEAD, POST"),
        (f"/v1/plans/{UNKNOWN_ID}", "GET, HEAD, DELETE"),
        ("/v1/checks", "POST"),
        ("/static/emplace.css", "GET, HEAD"),
        ("/", "GET, HEAD"),
    ):
        assert api.put(path).headers["allow"] == allowed


def test_head_answers_as_get_without_a_body(api: httpx.Client) -> None:
    plan_id = api.post("/v1/plans", json={"model": model_data(), "host": "zion"}).json()["id"]
    for path in ("/", "/healthz", "/readyz", "/metrics", "/v1/models", f"/v1/plans/{plan_id}", f"/plans/{plan_id}", "/v1/nothing"):
        got, head = api.get(path), api.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    stream = api.head(f"/v1/plans/{plan_id}/events")  # goes on for as long as the plan is queued
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert api.head("/v1/checks").status_code == 405


def test_a_service_whose_database_a_newer_version_migrated_is_not_ready(api: httpx.Client, database: Database) -> None:
    with database.writing() as session:
        workers.register(session, "one", resolve_host("local"))
    assert api.get("/readyz").json() == {"status": "ok", "workers": 1}
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert "newer Emplace" in assert_problem(api.get("/readyz"), 503)["detail"]
    assert api.get("/healthz").status_code == 200


def test_unknown_parameters_are_named_beside_those_that_exist(api: httpx.Client) -> None:
    (error,) = assert_problem(api.get("/v1/plans?hots=zion&limit=2"), 422)["errors"]
    assert (error["in"], error["pointer"], error["value"]) == ("query", "/hots", "zion")
    assert "model, host, status, state, cursor, limit" in error["detail"]
    assert_problem(api.post("/v1/plans?wait=3", json={"model": "m1", "host": "zion"}), 422)


def test_what_is_not_there(api: httpx.Client) -> None:
    for path in ("/v1/nothing", "/redoc", f"/plans/{UNKNOWN_ID}", "/static/nothing.css", f"/v1/plans/{UNKNOWN_ID}/nothing"):
        assert_problem(api.get(path), 404)


def test_bad_parameters_are_named(api: httpx.Client) -> None:
    for parameter, value in (("limit", "0"), ("limit", "x"), ("limit", "201"), ("cursor", "x"), ("status", "x")):
        problem = assert_problem(api.get("/v1/plans", params={parameter: value}), 422)
        assert [(error["in"], error["pointer"]) for error in problem["errors"]] == [("query", f"/{parameter}")]


def test_values_are_shown_as_they_were_sent(api: httpx.Client) -> None:
    for pointer, sent, shown in (
        ("/options/seed", '"2"', '"2"'),
        ("/options/seed", "true", "true"),
        ("/options/seed", "2001-02-03", "2001-02-03"),
        ("/options/seed", "[{x: 1.5}, no]", '[{"x": 1.5}, false]'),
        ("/options/seed", "a" * 1000, '"' + "a" * 76 + "..."),
        ("/model", "~none", '"~none"'),
    ):
        key = pointer.rpartition("/")[2]
        text = f"host: zion\nmodel: {sent if key == 'model' else 'm1'}\noptions: {{{key}: {sent}}}"
        response = api.post("/v1/plans", content=text, headers={"content-type": "application/yaml"})
        problem = assert_problem(response, 422)
        assert (pointer, shown) in [(error["pointer"], error["value"]) for error in problem["errors"]]
        assert f"(got {shown})" in problem["detail"]


def test_parameters_are_worded_as_fields_are(api: httpx.Client) -> None:
    for parameters, detail in (({"limit": "0"}, "must be greater than or equal to 1"), ({"limit": "x"}, "must be a whole number")):
        problem = assert_problem(api.get("/v1/plans", params=parameters), 422)
        assert [(error["detail"], error["value"]) for error in problem["errors"]] == [(detail, parameters["limit"])]
    assert "should" not in api.get("/v1/plans?cursor=zz&status=x").text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"model": NaN}',
        b'{"model": 1, "model": 2}',
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"model": "m1", "host": {"nested": [[[]]] * 10}}).encode(),
    ],
    ids=["empty", "list", "null", "nan", "repeated key", "not utf-8", "deep", "wrong host"],
)
def test_broken_bodies(api: httpx.Client, body: bytes) -> None:
    for path in ("/v1/plans", "/v1/checks", "/v1/profiles"):
        problem = assert_problem(api.post(path, content=body, headers={"content-type": "application/json"}), 422)
        assert problem["errors"]
        assert problem["errors"][0]["in"] == "body"


def test_yaml_that_explodes_is_refused(api: httpx.Client) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    response = api.post("/v1/plans", content="\n".join(lines), headers={"content-type": "application/yaml"})
    assert "aliases" in assert_problem(response, 422)["errors"][0]["detail"]


def test_another_kind_of_body_is_refused(api: httpx.Client) -> None:
    assert_problem(api.post("/v1/plans", content=b"<xml/>", headers={"content-type": "application/xml"}), 415)
    assert_problem(api.post("/v1/plans", data={"model": "m1"}), 415)
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    refused = api.post("/v1/plans", content=gzip.compress(b'{"model": "m1"}'), headers=packed)
    assert "without the Content-Encoding gzip" in assert_problem(refused, 415)["detail"]


def test_a_body_over_the_limit_is_refused_before_it_is_read(api: httpx.Client) -> None:
    """50 MB are announced and none of them sent: the answer comes all the same."""
    with socket.create_connection((api.base_url.host, api.base_url.port or 80), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50000000\r\n\r\n"
        )
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in answer


def test_a_client_that_sends_all_of_it_first_reads_the_answer_and_goes_on(api: httpx.Client) -> None:
    """A close while it sends would reset the connection, and what was answered would be lost."""
    head = (
        f"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {MAX_BODY_BYTES + 2**20}\r\n\r\n"
    )
    with socket.create_connection((api.base_url.host, api.base_url.port or 80), timeout=10) as connection:
        for _ in range(3):
            connection.sendall(head.encode())
            for _ in range(MAX_BODY_BYTES // 2**20 + 1):
                connection.sendall(b" " * 2**20)
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"must be at most" in answer or b"must be at most" in connection.recv(65536)


def test_a_client_that_sends_50_mb_reads_the_answer(api: httpx.Client) -> None:
    assert_problem(api.post("/v1/plans", content=b" " * 50_000_000, headers={"content-type": "application/json"}), 413)


def test_a_body_of_unknown_length_is_refused_once_it_is_too_long(api: httpx.Client) -> None:
    def chunks() -> Any:
        for _ in range(MAX_BODY_BYTES // 2**20 + 2):
            yield b" " * 2**20

    assert_problem(api.post("/v1/plans", content=chunks(), headers={"content-type": "application/json"}), 413)


def test_more_than_ten_thousand_tables_are_refused(api: httpx.Client) -> None:
    problem = assert_problem(api.post("/v1/plans", json={"model": model_data(tables=10_001), "host": "zion"}), 422)
    assert problem["errors"][0]["pointer"] == "/model/tables"


NODE, DEVICE = "/node", "/node/devices/0"


@pytest.mark.parametrize(
    ("pointer", "key", "value", "rule"),
    [
        (DEVICE, "hbm_capacity", "99999999TiB", "must be at most 128TiB"),
        (DEVICE, "hbm_capacity", "9" * 30 + "TiB", "must be at most 128TiB"),
        (NODE, "ddr_capacity", "99999999TiB", "must be at most 128TiB"),
        (NODE, "network", "0.5B/s", "must be at least 1B/s"),
        (NODE, "intra_node_link", "0.5B/s", "must be at least 1B/s"),
        (DEVICE, "memory_bandwidth", "0." + "0" * 300 + "1GB/s", "must be at least 1B/s"),
        (DEVICE, "fp32_flops", "0." + "0" * 300 + "1GFLOP/s", "must be at least 0.000000001GFLOP/s"),
    ],
)
def test_figures_of_a_host_that_nothing_has_are_refused_at_the_door(
    api: httpx.Client, pointer: str, key: str, value: str, rule: str
) -> None:
    host = api.get("/v1/hosts/dgx-h100").json()
    part = host["node"] if pointer == NODE else host["node"]["devices"][0]
    part[key] = value
    for path in ("/v1/plans", "/v1/checks"):
        (error,) = assert_problem(api.post(path, json={"model": "ncf", "host": host}), 422)["errors"]
        assert error["pointer"] == f"/host{pointer}/{key}"
        assert rule in error["detail"]
        assert error["value"].startswith(f'"{value[:20]}')
    assert api.get("/v1/plans").json()["items"] == []


@pytest.mark.parametrize("digits", [22, 400])
def test_a_reserve_beyond_every_memory_is_refused(api: httpx.Client, digits: int) -> None:
    body = {"model": "ncf", "host": "dgx-h100", "options": {"hbm_reserve": "9" * digits + "GiB"}}
    (error,) = assert_problem(api.post("/v1/checks", json=body), 422)["errors"]
    assert error["pointer"] == "/options/hbm_reserve"
    assert "at most 128TiB" in error["detail"]


def test_tables_whose_bytes_cannot_be_counted_are_refused(api: httpx.Client) -> None:
    model = model_data()
    model["tables"][0] |= {"num_embeddings": 10**12, "embedding_dim": 65_536}
    (error,) = assert_problem(api.post("/v1/plans", json={"model": model, "host": "dgx-h100"}), 422)["errors"]
    assert error["pointer"] == "/model/tables"
    assert "2^62 bytes" in error["detail"]


def test_a_defect_is_a_problem_too(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from emplace.app.database import paging

    monkeypatch.setattr(paging, "page", lambda *_: 1 / 0)
    problem = assert_problem(api.get("/v1/plans"), 500)
    assert "division" not in problem["detail"]


def test_after_a_defect_the_connection_is_not_used_again(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends it; a client that is not told sends its next request into the void."""
    from emplace.app.database import paging

    monkeypatch.setattr(paging, "page", lambda *_: 1 / 0)
    assert api.get("/v1/plans").headers["connection"] == "close"
    assert api.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"model": "\\ud800", "host": "zion"}', "/model"),
        ('{"model": "m1", "host": {"name": ["x", "\\uDC00\\ud800"]}}', "/host/name/1"),
        ('{"model": "m1", "host": "zion", "options": {"a\\udfff": 1}}', "/options"),
        ('{"\\ud800": 1}', ""),
        ('{"cost_model": {"host_name": "\\ud800"}}', "/cost_model/host_name"),
    ],
)
def test_half_a_character_is_refused_where_it_stands(api: httpx.Client, body: str, pointer: str) -> None:
    for path in ("/v1/plans", "/v1/checks", "/v1/profiles"):
        problem = assert_problem(api.post(path, content=body, headers={"content-type": "application/json"}), 422)
        assert [error["pointer"] for error in problem["errors"]] == [pointer]
        assert "half of a surrogate pair" in problem["detail"]


def test_whole_characters_are_text_however_they_are_written(api: httpx.Client) -> None:
    body = json.dumps({"model": model_data() | {"description": "\U0001f600 \\ud800"}, "host": "zion"})
    assert "\\ud83d\\ude00" in body
    answer = api.post("/v1/plans", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 202, answer.text


def test_half_a_character_in_yaml_is_refused(api: httpx.Client) -> None:
    answer = api.post("/v1/plans", content='model: "\\ud800"\nhost: zion', headers={"content-type": "application/yaml"})
    assert_problem(answer, 422)


@pytest.mark.parametrize("number", ["1" + ":1" * 20_000, "1" + ":1" * 20_000 + ".5", "1" + ":1" * 180 + ".5", "0x" + "f" * 500, "1" * 500])
def test_a_yaml_number_of_many_digits_is_refused(api: httpx.Client, number: str) -> None:
    answer = api.post("/v1/plans", content=f"model: {number}\nhost: zion", headers={"content-type": "application/yaml"})
    assert "a number" in assert_problem(answer, 422)["detail"]


def test_a_body_whose_last_key_is_repeated_is_refused_at_once(api: httpx.Client) -> None:
    """320 kB of it took 16 s, and twice as much four times as long."""
    for count in (30_000, 90_000):
        body = b"{" + b",".join(b'"k%d":1' % min(index, count - 2) for index in range(count)) + b"}"
        started = time.process_time()
        problem = assert_problem(api.post("/v1/plans", content=body, headers={"content-type": "application/json"}), 422)
        assert time.process_time() - started < 3
        assert f"the key 'k{count - 2}' is repeated" in problem["detail"]


def test_a_whole_number_may_be_written_as_json_writes_it(api: httpx.Client, database: Database) -> None:
    for written in ("4289.0", "4289.00", "4.289e3"):
        body = f'{{"model": "ncf", "host": "zion", "options": {{"seed": {written}}}}}'
        answer = api.post("/v1/plans", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 202, answer.text
    assert len(api.get("/v1/plans").json()["items"]) == 1
    for written in ("4289.5", "1e300", "true", '"4289"'):
        body = f'{{"model": "ncf", "host": "zion", "options": {{"seed": {written}}}}}'
        assert_problem(api.post("/v1/plans", content=body, headers={"content-type": "application/json"}), 422)
    plan_id = api.get("/v1/plans").json()["items"][0]["id"]
    finish_plan(database, plan_id)
    run = api.post(f"/v1/plans/{plan_id}/runs", content=b'{"steps": 4289.0}', headers={"content-type": "application/json"})
    assert_problem(run, 409)  # no worker: what was asked is understood


def test_an_answer_and_the_log_name_the_request(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from emplace.app.database import paging

    def broken(*_: object) -> None:
        logging.getLogger("emplace.app").warning("on its thread")
        raise ZeroDivisionError

    monkeypatch.setattr(paging, "page", broken)
    caplog.handler.addFilter(say_what_about)
    answers = [
        api.get("/v1/plans", headers=headers) for headers in ({}, {"X-Request-ID": "mine-7"}, {"X-Request-ID": "not mine\t" + "x" * 99})
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert ids[1] == "mine-7"
    assert len(set(ids)) == 3
    assert "not mine" not in ids[2]
    for answer in answers:
        assert answer.headers["x-request-id"] in answer.json()["detail"]
    found = [vars(record)["about"] for record in caplog.records if record.name.startswith("emplace.app")]
    assert found == [f"request {each}" for each in ids for _ in range(2)]
    assert "ZeroDivisionError" in caplog.text
