"""Studies over the API: refused before they are stored, solved point by point, gone on with after a kill, cancelled, deleted."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

import emplace
from emplace.app.database import jobs, studies
from emplace.app.database.connection import Database
from emplace.app.database.jobs import Ticket
from emplace.app.database.retention import forget_old
from emplace.app.database.tables import StudyRow, now
from emplace.studies.batch import BatchSizes
from emplace.studies.quality import CurvePoint, QualityCurve
from emplace.studies.size import Sizing
from tests.app.asking import ONLY_SQLITE, SOLVE_S, START_S, Query, StartWorker
from tests.app.database.test_retention import MESSAGES
from tests.app.processes import wait_until
from tests.app.questions import BUSY_HOST, busy_model_data
from tests.studies.test_batch import NOISE

SWEEP: dict[str, Any] = {
    "kind": "sweep",
    "model": "suite",
    "set": ["mlp=64^2", "sparse=4"],
    "hosts": ["cpu-dual-socket"],
    "vary": ["/hash=1000,2000,4000,8000"],
    "pareto": ["throughput,servers"],
    "options": {"work_limit": 1},
}


CURVE = {"quality": "NE 0.78", "points": [{"global_batch": 100, "examples": "1G"}, {"global_batch": 1000, "examples": "1.2G"}]}
BATCH: dict[str, Any] = {key: SWEEP[key] for key in ("model", "set", "hosts", "options")} | {
    "kind": "batch",
    "batches": [100, 25, 400, 50],
    "curve": CURVE,
}


def post(api: httpx.Client, body: dict[str, Any], **headers: str) -> httpx.Response:
    return api.post("/v1/studies", json=body, headers=headers)


def ended(api: httpx.Client, study_id: str) -> dict[str, Any]:
    wait_until(lambda: api.get(f"/v1/studies/{study_id}").json()["state"] not in ("queued", "running"), SOLVE_S)
    found: dict[str, Any] = api.get(f"/v1/studies/{study_id}").json()
    return found


def test_a_study_is_stored_listed_cancelled_and_deleted(api: httpx.Client, database: Database, query: Query) -> None:
    first = post(api, SWEEP, **{"Idempotency-Key": "once"})
    assert first.status_code == 202, first.text
    study = first.json()
    assert (study["state"], study["points"], study["points_done"]) == ("queued", 4, 0)
    assert (study["kind"], study["model"], study["hosts"], study["varied"]) == ("sweep", "suite", ["cpu-dual-socket"], ["/hash"])
    assert post(api, SWEEP, **{"Idempotency-Key": "once"}).json()["id"] == study["id"]
    other = post(api, {"kind": "recommend", "model": "ncf", "hosts": ["zion", "dgx-h100"]}).json()
    batch = post(api, BATCH).json()
    assert (batch["kind"], batch["varied"], batch["points"]) == ("batch", ["/batch"], 4)
    listed = api.get("/v1/studies").json()["items"]
    assert [each["id"] for each in listed] == [batch["id"], other["id"], study["id"]]
    assert [each["id"] for each in api.get("/v1/studies", params={"kind": "batch"}).json()["items"]] == [batch["id"]]
    assert [each["id"] for each in api.get("/v1/studies", params={"kind": "sweep"}).json()["items"]] == [study["id"]]
    tag = api.get(first.headers["location"]).headers["etag"]
    assert api.get(first.headers["location"], headers={"If-None-Match": tag}).status_code == 304
    with database.writing() as session:
        ticket = Ticket(StudyRow, study["id"], 1)
        assert jobs.take_up(session, ticket)
        assert studies.keep_point(session, ticket, 0, {"status": "optimal"}, None)
    assert api.get(first.headers["location"], headers={"If-None-Match": tag}).json()["points_done"] == 1
    assert api.post(f"/v1/studies/{study['id']}/cancel").json()["state"] == "cancelled"
    with database.writing() as session:
        assert not studies.keep_point(session, ticket, 1, {"status": "optimal"}, None)
    assert '"points_done": 1' in api.get(f"/v1/studies/{study['id']}/events").text
    with database.writing() as session:
        session.get_one(StudyRow, study["id"]).finished_at = now()
        assert forget_old(session, keep_days=1) == []
    assert api.delete(f"/v1/studies/{study['id']}").status_code == 204
    assert api.get(f"/v1/studies/{study['id']}").status_code == 404
    for table in ("study_points", "events", "idempotency_keys"):
        assert query(f"SELECT count(*) FROM {table}") == [(0,)]
    left = f"SELECT workflow_uuid FROM {MESSAGES[database.engine.dialect.name]} ORDER BY 1"
    assert query(left) == [(f"{each['id']}.1",) for each in (other, batch)]


@ONLY_SQLITE
def test_what_the_commands_refuse_is_refused_before_anything_is_stored(api: httpx.Client) -> None:
    m1 = {"model": "m1", "hosts": ["zion"]}
    refused: list[tuple[dict[str, Any], str, str]] = [
        (SWEEP | {"kind": "survey"}, "/kind", "must be sweep, size, recommend, batch"),
        (SWEEP | {"throughput": "5k"}, "/throughput", "unknown key"),
        (SWEEP | {"set": ["colour=red"]}, "/set", "colour"),
        (SWEEP | {"hosts": []}, "/hosts", "must be a list of hosts"),
        (SWEEP | {"hosts": ["zion", "abacus"]}, "/hosts/1", "must be a host document or the name"),
        (SWEEP | {"hosts": ["zion", "zion"]}, "/hosts", "is the name of two hosts"),
        (SWEEP | {"vary": ["/colour=1"]}, "/vary", "is not there"),
        (SWEEP | {"vary": ["--nodes=0"]}, "/vary", "must be greater than 0"),
        (SWEEP | {"vary": ["/sparse=2,4"]}, "/vary", "/sparse is varied, and given besides"),
        (SWEEP | {"vary": ["--work-limit=1,2"]}, "/vary", "--work-limit is varied, and given besides"),
        (SWEEP | {"pareto": ["throughput"]}, "/pareto", "two figures"),
        (SWEEP | {"vary": ["/hash=" + ",".join(map(str, range(1, 20_000)))]}, "/vary", "has 2,000 at most"),
        (SWEEP | {"hosts": ["zion"] * 101}, "/hosts", "must be 100 at most"),
        ({"kind": "size", **m1}, "/throughput", "say what the job must reach"),
        ({"kind": "size", **m1, "examples": 1e15, "deadline": "1s", "max_nodes": 2}, "/deadline", "no job reaches"),
        ({"kind": "size", **m1, "throughput": "9" * 400}, "/throughput", "must be a number above 0"),
        ({"kind": "size", **m1, "examples": "1", "deadline": f"{'9' * 400}d"}, "/deadline", "must be a time"),
        ({"kind": "size", **m1, "throughput": "5k", "options": {"ranks": 2}}, "/options/ranks", "is what a sizing finds"),
        ({"kind": "recommend", "model": "m1", "hosts": "all", "objective": "cost"}, "/hosts", "price_per_hour"),
        ({"kind": "recommend", **m1, "options": {"nodes": -1}}, "/options/nodes", "greater than 0"),
        (BATCH | {"vary": ["/hash=1"]}, "/vary", "unknown key"),
        (BATCH | {"batches": []}, "/batches", "at least 1"),
        (BATCH | {"batches": ["64"]}, "/batches/0", "whole number"),
        (BATCH | {"batches": [64, 64]}, "/batches", "is named twice"),
        (BATCH | {"batches": list(range(1, 2100))}, "/batches", "2,000 at most"),
        (BATCH | {"set": [], "model": "m1", "batches": [8, 10_000_001]}, "/batches/1", "10000000"),
        (BATCH | {"curve": {"points": []}}, "/curve/points", "at least 1"),
        (BATCH | {"curve": {"points": [{"global_batch": 8}]}}, "/curve/points/0/examples", "either examples or steps"),
        (BATCH | {"noise": NOISE}, "/curve/points", "a curve of one point"),
        (BATCH | {"curve": None, "noise": NOISE | {"model": "m1"}}, "/noise/model", "no model's noise says another's"),
        (BATCH | {"curve": None, "noise": NOISE | {"noise_scale": 1e300}}, "/noise/noise_scale", "less than or equal"),
    ]
    for body, pointer, words in refused:
        answer = post(api, body)
        problem = answer.json()
        assert answer.status_code == 422, body
        assert problem["errors"][0]["pointer"] == pointer, problem
        assert words in problem["errors"][0]["detail"], problem
    assert api.get("/v1/studies").json()["items"] == []


@ONLY_SQLITE
def test_a_sweep_that_is_too_large_is_refused_before_its_points_are_made(api: httpx.Client) -> None:
    """Making them takes longer than a service may."""
    count, hosts = ",".join(map(str, range(1000, 1050))), ["zion", "dgx-h100", "cpu-dual-socket"]
    asked = SWEEP | {"hosts": hosts, "vary": [f"/hash={count}", f"/dense={count}"]}
    began = time.monotonic()
    problem = post(api, asked).json()
    assert time.monotonic() - began < 5
    assert "makes 7,500 points" in problem["errors"][0]["detail"]


@ONLY_SQLITE
@pytest.mark.parametrize("throughput", [0, -1.5, "0", "many", True, 1e31])
def test_what_is_no_amount_is_said_once(api: httpx.Client, throughput: Any) -> None:
    refused = post(api, {"kind": "size", "model": "m1", "hosts": ["big-basin-16g"], "throughput": throughput})
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/throughput"]


@ONLY_SQLITE
def test_a_killed_study_goes_on_where_it_was_and_comes_to_what_the_command_prints(
    api: httpx.Client, start_worker: StartWorker, query: Query
) -> None:
    study_id = post(api, BATCH).json()["id"]
    sweep_id = post(api, SWEEP).json()["id"]
    worker = start_worker("killed")
    wait_until(lambda: api.get(f"/v1/studies/{study_id}").json()["points_done"] >= 1, START_S)
    worker.kill()
    done = api.get(f"/v1/studies/{study_id}").json()["points_done"]
    start_worker("next")
    study = ended(api, study_id)
    assert (study["state"], study["points_done"]) == ("done", 4), study["error"]
    assert [event["points_done"] for event in progress(api, study_id)] == [1, 2, 3, 4]
    assert 1 <= done < 4
    common: dict[str, Any] = {"settings": SWEEP["set"], "work_limit": 1}
    assert study["study"] == emplace.batch("suite", "cpu-dual-socket", BATCH["batches"], curve=CURVE, **common).to_data()
    swept = ended(api, sweep_id)["study"]
    assert query("SELECT count(*) FROM study_points") == [(0,)]
    pareto = [("throughput", "servers")]
    assert swept == emplace.sweep("suite", "cpu-dual-socket", SWEEP["vary"], pareto=pareto, **common).to_data()


def progress(api: httpx.Client, study_id: str) -> list[dict[str, Any]]:
    lines = api.get(f"/v1/studies/{study_id}/events").text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith('data: {"points_done"')]


@ONLY_SQLITE
def test_a_cancelled_study_leaves_no_process_and_plans_do_not_wait_for_one(api: httpx.Client, start_worker: StartWorker) -> None:
    busy = {"kind": "sweep", "model": busy_model_data(), "hosts": [BUSY_HOST], "vary": ["/local_batch_size=4096,8192"]}
    study_id = post(api, busy | {"options": {"work_limit": 600, "gap": 0}}).json()["id"]
    worker = start_worker()
    wait_until(worker.steps, START_S)
    with emplace.Client(str(api.base_url)) as client:
        assert client.plan("ncf", "cpu-dual-socket", work_limit=1.0).has_placement
        assert client.get_study(study_id).state == "running"
        assert client.cancel_study(study_id).state == "cancelled"
        wait_until(lambda: not worker.steps(), 15)
        sizing = client.study("size", "ncf", ["cpu-dual-socket"], throughput="1k", options={"work_limit": 1.0})
        assert isinstance(sizing, Sizing)
        assert sizing.best is not None
        point = QualityCurve(points=(CurvePoint(global_batch=64, examples=1e6),))
        batches = client.study("batch", "ncf", ["cpu-dual-socket"], batches=[64], curve=point, options={"ranks": 1, "work_limit": 0.2})
        assert isinstance(batches, BatchSizes)
        assert batches.hosts[0].best == 64
        client.delete_study(study_id)
        with pytest.raises(emplace.ToolError, match="no study has the id"):
            client.get_study(study_id)
