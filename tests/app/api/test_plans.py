"""POST and GET /v1/plans and what is done with one plan, as a client sees it. No worker: what is asked stays queued."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text

from emplace.app.database import jobs, paging, workers
from emplace.app.database.connection import Database
from emplace.app.database.tables import PlanRow
from emplace.app.settings import Settings
from emplace.planning import resolve_host
from tests.app.database.test_retention import MESSAGES
from tests.app.finished import finish_plan, ticket_of
from tests.app.postgres import PostgresServer
from tests.app.questions import model_data

Query = Callable[[str], list[tuple[object, ...]]]
HOST = "cpu-dual-socket"


def ask(api: httpx.Client, headers: dict[str, str] | None = None, **changes: Any) -> httpx.Response:
    return api.post("/v1/plans", json={"model": model_data(), "host": HOST} | changes, headers=headers)


def test_a_question_is_accepted_and_queued_with_its_job(api: httpx.Client, query: Query) -> None:
    response = ask(api)
    assert response.status_code == 202
    plan = response.json()
    assert response.headers["location"] == f"/v1/plans/{plan['id']}"
    assert (plan["state"], plan["plan"], plan["model"]["name"], plan["host"]["name"]) == ("queued", None, "small", HOST)
    assert api.get(response.headers["location"]).json() == plan
    assert query("SELECT count(*) FROM plans") == [(1,)]


def test_equal_questions_share_one_plan_however_they_are_written(api: httpx.Client) -> None:
    first = ask(api)
    host = api.get(f"/v1/hosts/{HOST}").json()
    yaml = "host: cpu-dual-socket\nmodel: " + json.dumps(model_data())
    again = api.post("/v1/plans", content=yaml, headers={"content-type": "application/yaml"})
    assert ask(api, host=host, options={"seed": 0}).json()["id"] == first.json()["id"] == again.json()["id"]
    assert ask(api, options={"seed": 1}).json()["id"] != first.json()["id"]


def test_without_a_limit_the_answer_is_due_in_ten_seconds_and_work_is_counted_where_asked(api: httpx.Client, database: Database) -> None:
    asked: list[dict[str, float]] = [{}, {"work_limit": 2.0}, {"time_limit": 3.0}, {"work_limit": 2.0, "time_limit": 3.0}]
    ids = [ask(api, options=options).json()["id"] for options in asked]
    with database.reading() as session:
        stored = [json.loads(session.get_one(PlanRow, each).question)["options"] for each in ids]
    limits = [{key: value for key, value in options.items() if key.endswith("_limit")} for options in stored]
    assert limits == [{"time_limit": 10.0}, *asked[1:]]


def test_equal_requests_at_once_make_one_plan_and_one_job(api: httpx.Client, query: Query) -> None:
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: ask(api), range(16)))
    assert {response.status_code for response in responses} == {202}
    assert len({response.json()["id"] for response in responses}) == 1
    assert query("SELECT count(*) FROM plans") == [(1,)]


def test_an_answered_question_is_answered_at_once(api: httpx.Client, database: Database) -> None:
    plan_id = ask(api).json()["id"]
    finish_plan(database, plan_id)
    response = ask(api)
    assert response.status_code == 200
    assert response.json()["id"] == plan_id
    assert response.json()["plan"]["status"] == "feasible"
    assert response.json()["step_time_us"] == response.json()["plan"]["step_time_us"]


def test_prefer_wait_answers_as_soon_as_the_plan_is_there(api: httpx.Client, database: Database) -> None:
    unfinished = ask(api, {"Prefer": "wait=1"})
    assert unfinished.status_code == 202
    assert unfinished.headers["preference-applied"] == "wait=1"
    for prefer in ("WAIT=1", 'foo="a, wait=3", wait=1', 'wait="1"'):
        assert ask(api, {"Prefer": prefer}).headers["preference-applied"] == "wait=1"
    assert "preference-applied" not in ask(api, {"Prefer": 'foo="a, wait=3"'}).headers
    timer = threading.Timer(0.5, finish_plan, (database, unfinished.json()["id"]))
    timer.start()
    response = ask(api, {"Prefer": "respond-async, wait=30"})
    timer.join()
    assert response.status_code == 200
    assert response.elapsed.total_seconds() < 15
    assert response.json()["state"] == "done"


def test_an_idempotency_key_stands_for_one_request(api: httpx.Client, query: Query) -> None:
    key = {"Idempotency-Key": "one"}
    first = ask(api, key)
    api.post(f"/v1/plans/{first.json()['id']}/cancel")
    assert ask(api, key).json()["id"] == first.json()["id"]
    other = ask(api, key, options={"seed": 7})
    assert other.status_code == 422
    assert [(error["in"], error["pointer"]) for error in other.json()["errors"]] == [("header", "/idempotency-key")]
    assert query("SELECT count(*) FROM plans") == [(1,)]
    assert ask(api, {"Idempotency-Key": "two"}).json()["id"] != first.json()["id"]


def test_a_key_used_at_once_makes_one_resource(api: httpx.Client) -> None:
    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(lambda _: ask(api, {"Idempotency-Key": "same"}), range(12)))
    assert {response.status_code for response in responses} == {202}
    assert len({response.json()["id"] for response in responses}) == 1


def test_lists_filter_and_page(api: httpx.Client, database: Database) -> None:
    ids = [ask(api, options={"seed": seed}).json()["id"] for seed in range(5)]
    other = ask(api, model=model_data(name="other")).json()["id"]
    finish_plan(database, ids[0])
    assert [item["id"] for item in api.get("/v1/plans?model=other").json()["items"]] == [other]
    assert [item["id"] for item in api.get("/v1/plans?status=feasible").json()["items"]] == [ids[0]]
    assert api.get("/v1/plans?host=zion").json() == {"items": [], "next": None}
    assert len(api.get("/v1/plans", params={"model": "small", "host": HOST, "state": "queued"}).json()["items"]) == 4
    seen, cursor = [], None
    while True:
        page = api.get("/v1/plans", params={"limit": 4} | ({"cursor": cursor} if cursor else {})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == sorted([*ids, other], reverse=True)
    assert "plan" not in page["items"][0]


def test_a_queued_plan_is_cancelled_once_and_for_all(api: httpx.Client, database: Database) -> None:
    plan_id = ask(api).json()["id"]
    assert api.post(f"/v1/plans/{plan_id}/cancel").json()["state"] == "cancelled"
    assert api.post(f"/v1/plans/{plan_id}/cancel").json()["state"] == "cancelled"
    with database.writing() as session:
        assert jobs.take_up(session, ticket_of(session, PlanRow, plan_id)) is None
    done = ask(api).json()["id"]
    finish_plan(database, done)
    refused = api.post(f"/v1/plans/{done}/cancel")
    assert refused.status_code == 409
    assert "is done" in refused.json()["detail"]


def test_deleting_a_plan_leaves_nothing_of_it(api: httpx.Client, database: Database, query: Query) -> None:
    plan_id = ask(api, {"Idempotency-Key": "key"}).json()["id"]
    with database.writing() as session:
        jobs.add_event(session, plan_id, {"phase": "search"})
    assert api.delete(f"/v1/plans/{plan_id}").status_code == 204
    assert api.get(f"/v1/plans/{plan_id}").status_code == 404
    assert api.delete(f"/v1/plans/{plan_id}").status_code == 404
    for table in ("plans", "events", "idempotency_keys", MESSAGES[database.engine.dialect.name]):
        assert query(f"SELECT count(*) FROM {table}") == [(0,)]
    assert ask(api, {"Idempotency-Key": "key"}).status_code == 202


def test_a_done_plan_is_exported(api: httpx.Client, database: Database) -> None:
    plan_id = ask(api, options={"ranks": 2}).json()["id"]
    assert api.get(f"/v1/plans/{plan_id}/export").status_code == 409
    finish_plan(database, plan_id)
    document = api.get(f"/v1/plans/{plan_id}/export").json()
    assert document == api.get(f"/v1/plans/{plan_id}").json()["plan"]
    torchrec = api.get(f"/v1/plans/{plan_id}/export?format=torchrec").json()
    assert torchrec["world_size"] == 2
    assert api.get(f"/v1/plans/{plan_id}/export?format=yaml").status_code == 422


def test_progress_is_streamed_and_ends_with_the_plan(api: httpx.Client, database: Database) -> None:
    plan_id = ask(api).json()["id"]
    with database.writing() as session:
        jobs.add_event(session, plan_id, {"incumbent_us": 2.0, "bound_us": 1.0, "gap": 0.5, "elapsed_s": 0.1})
        jobs.add_event(session, plan_id, {"incumbent_us": 1.5, "bound_us": 1.0, "gap": 0.3, "elapsed_s": 0.2})
    timer = threading.Timer(0.5, finish_plan, (database, plan_id))
    timer.start()
    first = read_events(api, plan_id)
    timer.join()
    assert [event["event"] for event in first] == ["progress", "progress", "end"]
    assert json.loads(first[0]["data"])["gap"] == 0.5
    assert json.loads(first[2]["data"]) == {"id": plan_id, "state": "done"}
    resumed = read_events(api, plan_id, {"Last-Event-ID": first[0]["id"]})
    assert [event["data"] for event in resumed] == [event["data"] for event in first[1:]]
    assert [event["event"] for event in read_events(api, plan_id, {"Last-Event-ID": "9" * 18})] == ["end"], "more than any id"


def read_events(api: httpx.Client, plan_id: str, headers: dict[str, str] | None = None) -> list[dict[str, str]]:
    with api.stream("GET", f"/v1/plans/{plan_id}/events", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        text = response.read().decode()
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "pointer", "said"),
    [
        ({"model": "no-such-model"}, "/model", "built-in one"),
        ({"model": "/etc/passwd"}, "/model", "built-in one"),
        ({"model": 7}, "/model", "mapping"),
        ({"model": None}, "/model", "required"),
        ({"host": "../hosts/zion"}, "/host", "built-in one"),
        ({"model": model_data(tables=0)}, "/model/tables", "at least 1"),
        ({"model": model_data() | {"colour": "red"}}, "/model/colour", "unknown key"),
        ({"model": model_data() | {"red/~": 1}}, "/model/red~1~0", "unknown key"),
        ({"red/~": 1}, "/red~1~0", "unknown key"),
        ({"model": model_data(local_batch_size=0)}, "/model/local_batch_size", "greater than 0"),
        ({"options": {"gap": 2}}, "/options/gap", "less than 1"),
        ({"options": {"ranks": 3, "nodes": 2}}, "/options/ranks", "multiple"),
        ({"options": {"sead": 1}}, "/options/sead", "unknown key"),
        ({"options": {"hbm_reserve": 5}}, "/options/hbm_reserve", "a share such as"),
        ({"options": {"ddr_reserve": "99.99%"}}, "/options/ddr_reserve", "must leave something"),
        ({"options": {"move_price_us_per_gib": 5.0}}, "/options/start", "go together"),
        ({"options": []}, "/options", "must be a mapping"),
        ({"options": ""}, "/options", "must be a mapping"),
        ({"options": 0}, "/options", "must be a mapping"),
        ({"options": False}, "/options", "must be a mapping"),
        ({"colour": "red"}, "/colour", "unknown key"),
        ({"host": {"schema_version": 1}}, "/host/name", "required"),
    ],
)
def test_a_bad_question_says_where_and_stores_nothing(
    api: httpx.Client, query: Query, changes: dict[str, Any], pointer: str, said: str
) -> None:
    response = ask(api, **changes)
    assert response.status_code == 422
    errors = {error["pointer"]: error["detail"] for error in response.json()["errors"]}
    assert said in errors[pointer]
    assert query("SELECT count(*) FROM plans") == [(0,)]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_bare_size_is_refused_where_a_unit_is_needed(api: httpx.Client) -> None:
    host = api.get(f"/v1/hosts/{HOST}").json()
    host["node"]["ddr_capacity"] = 256
    error = ask(api, host=host).json()["errors"][0]
    assert error == {"in": "body", "pointer": "/host/node/ddr_capacity", "detail": error["detail"], "value": "256"}
    assert "unit" in error["detail"]


def test_odd_characters_are_an_answer_too(api: httpx.Client) -> None:
    for path in ("/v1/plans?model=%00", "/v1/plans/%00", "/v1/plans/%F0%9F%98%80", "/?host=%00", "/v1/plans?model=" + "x" * 3000):
        assert api.get(path).status_code in (200, 404, 422)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_database_that_is_gone_is_a_503(api: httpx.Client, settings: Settings, postgres: PostgresServer) -> None:
    assert api.get("/v1/plans").status_code == 200
    postgres.drop_database(settings.database_url)
    assert api.get("/healthz").status_code == 200
    for path in ("/readyz", "/v1/plans"):
        response = api.get(path)
        assert response.status_code == 503
        assert response.headers["content-type"] == "application/problem+json"
        assert "the database does not answer" in response.json()["detail"]
        assert response.headers["retry-after"]


@pytest.fixture
def locked(settings: Settings) -> Iterator[None]:
    """Another process writes, for longer than a request waits."""
    engine = create_engine(Database(settings.database_url).url)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("LOCK TABLE plans IN EXCLUSIVE MODE"))
        yield
    engine.dispose()


def test_a_database_that_is_busy_is_a_503_to_every_writer_and_nothing_to_readers(api: httpx.Client, locked: None) -> None:
    del locked
    with ThreadPoolExecutor(20) as pool:
        writers = [pool.submit(ask, api, options={"seed": seed}) for seed in range(20)]
        time.sleep(1)
        assert api.get("/v1/plans", timeout=2).status_code == 200
        assert api.get("/metrics", timeout=2).status_code == 200
    answers = [writer.result() for writer in writers]
    assert {(answer.status_code, answer.headers["content-type"]) for answer in answers} == {(503, "application/problem+json")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)


@pytest.fixture
def short_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_PLAN_QUEUE", "2")
    monkeypatch.setenv("EMPLACE_MEASUREMENT_QUEUE", "1")


def test_a_full_queue_takes_no_more_and_stores_nothing_of_it(
    short_queues: None, api: httpx.Client, database: Database, query: Query
) -> None:
    del short_queues
    first, second = (ask(api, options={"seed": seed}).json()["id"] for seed in range(2))
    refused = ask(api, options={"seed": 2}, headers={"Idempotency-Key": "later"})
    assert (refused.status_code, refused.headers["content-type"]) == (429, "application/problem+json")
    assert "2 plans wait for a worker already" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) > 0
    assert query("SELECT count(*) FROM plans") == [(2,)]
    assert ask(api, options={"seed": 1}).json()["id"] == second  # an equal question needs no place
    finish_plan(database, first)
    assert ask(api, options={"seed": 2}, headers={"Idempotency-Key": "later"}).status_code == 202
    with database.writing() as session:
        workers.register(session, "worker", resolve_host("local"))
    profiles = [api.post("/v1/profiles", json={"seed": seed}).status_code for seed in range(2)]
    runs = [api.post(f"/v1/plans/{first}/runs", json={"seed": seed, "emulate": True}).status_code for seed in range(2)]
    assert profiles == runs == [202, 429]


def test_a_run_that_is_asked_for_again_under_its_key_needs_no_worker(api: httpx.Client, database: Database) -> None:
    plan_id = ask(api).json()["id"]
    finish_plan(database, plan_id)
    with database.writing() as session:
        workers.register(session, "worker", resolve_host("local"))

    def run() -> httpx.Response:
        return api.post(f"/v1/plans/{plan_id}/runs", json={"emulate": True}, headers={"Idempotency-Key": "once"})

    first = run()
    with database.writing() as session:
        workers.leave(session, "worker")
    again = run()
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert api.post(f"/v1/plans/{plan_id}/runs", json={"emulate": True}).status_code == 409


def test_a_job_that_cannot_be_queued_stores_no_plan(api: httpx.Client, database: Database, query: Query, monkeypatch: Any) -> None:
    from emplace.app.jobs.queue import JobQueue

    def broken(*_: object) -> None:
        raise RuntimeError("no queue")

    monkeypatch.setattr(JobQueue, "put_all", broken)
    assert ask(api).status_code == 500
    assert query("SELECT count(*) FROM plans") == [(0,)]
    with database.reading() as session:
        assert paging.page(session, PlanRow, {}, None, 5) == ([], None)
