"""Durable jobs: real workers, real child programs, killed at the worst moment."""

from __future__ import annotations

import os
import signal

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.planning import resolve_host
from tests.app.asking import ONLY_SQLITE, SOLVE_S, START_S, Query, StartWorker, ask_busy, ask_small, state_of, wait_for
from tests.app.finished import finish_plan
from tests.app.processes import WARM, WorkerProcess, children_of, descendants_of, is_alive, wait_until
from tests.app.questions import model_data


@ONLY_SQLITE
def test_a_plan_survives_the_sigkill_of_its_worker(api: httpx.Client, start_worker: StartWorker, query: Query) -> None:
    plan_id = ask_small(api)
    worker = start_worker()
    step = wait_until(worker.steps, START_S)[0]
    worker.kill()
    wait_until(lambda: not is_alive(step), 10)
    assert state_of(api, plan_id) == "running"
    start_worker()
    plan = wait_for(api, plan_id, "done")
    assert plan["plan"]["status"] == "optimal"
    assert query("SELECT attempts FROM plans") == [(2,)]
    progress = api.get(f"/v1/plans/{plan_id}/events").text
    for key in ("incumbent_us", "bound_us", "gap", "elapsed_s"):
        assert f'"{key}"' in progress


@ONLY_SQLITE
def test_a_plan_survives_the_sigkill_of_the_process_that_solves_it(api: httpx.Client, start_worker: StartWorker, query: Query) -> None:
    plan_id = ask_small(api)
    worker = start_worker()
    wait_until(worker.steps, START_S)
    [warm] = children_of(worker.pid, WARM.decode())
    os.kill(warm, signal.SIGKILL)
    assert wait_for(api, plan_id, "done")["plan"]["status"] == "optimal"
    assert query("SELECT attempts FROM plans") == [(2,)]


def freeze(worker: WorkerProcess, database: Database) -> None:
    """Stop it where it is, but not in a transaction: SQLite's lock would be kept for as long, and nobody could take over."""
    while True:
        worker.pause()
        try:
            with database.writing() as session:
                session.execute(text("SELECT 1"))
        except OperationalError:
            worker.resume()
        else:
            return


def test_another_worker_takes_over_from_one_that_never_returns(
    api: httpx.Client, database: Database, start_worker: StartWorker, query: Query
) -> None:
    plan_id = ask_busy(api)
    frozen = start_worker("frozen")
    steps = wait_until(frozen.steps, START_S)
    freeze(frozen, database)
    other = start_worker("other")
    wait_until(other.steps, START_S)
    assert query("SELECT id FROM workers") == [("other",)]
    frozen.resume()
    assert frozen.wait(20) == 1
    wait_until(lambda: not any(map(is_alive, steps)), 30)
    assert len(other.steps()) == 1
    api.delete(f"/v1/plans/{plan_id}")
    wait_until(lambda: not other.steps(), 15)


@ONLY_SQLITE
def test_cancelling_leaves_no_process_and_a_worker_that_goes_on(
    api: httpx.Client, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPLACE_PLANS_AT_ONCE", "1")
    busy = ask_busy(api)
    worker = start_worker()
    wait_until(worker.steps, START_S)
    small = ask_small(api)
    assert state_of(api, small) == "queued"
    assert api.post(f"/v1/plans/{busy}/cancel").json()["state"] == "cancelled"
    wait_until(lambda: state_of(api, small) != "queued", 15)
    wait_for(api, small, "done")
    assert worker.steps() == []
    assert state_of(api, busy) == "cancelled"
    assert "ERROR" not in worker.log.read_text()


@ONLY_SQLITE
def test_a_worker_that_is_told_to_stop_leaves_its_job_to_the_next(api: httpx.Client, start_worker: StartWorker, query: Query) -> None:
    plan_id = ask_busy(api)
    first = start_worker("first")
    wait_until(first.steps, START_S)
    assert first.stop() == 0
    assert first.steps() == []
    assert query("SELECT id FROM workers") == []
    assert query("SELECT state, attempts FROM plans") == [("queued", 0)]
    second = start_worker("second")
    wait_until(second.steps, START_S)
    assert state_of(api, plan_id) == "running"


@ONLY_SQLITE
def test_a_child_that_is_killed_fails_its_job_with_the_reason(api: httpx.Client, start_worker: StartWorker) -> None:
    plan_id = ask_busy(api)
    worker = start_worker()
    os.kill(wait_until(worker.steps, START_S)[0], signal.SIGKILL)
    plan = wait_for(api, plan_id, "failed", 20)
    assert "SIGKILL" in plan["error"]
    assert ask_busy(api) != plan_id


@ONLY_SQLITE
def test_a_plan_is_run_only_on_its_own_machine(api: httpx.Client, database: Database) -> None:
    plan_id = ask_small(api)
    assert "is queued" in api.post(f"/v1/plans/{plan_id}/runs").json()["detail"]
    finish_plan(database, plan_id)
    assert "here there is no worker" in api.post(f"/v1/plans/{plan_id}/runs").json()["detail"]
    with database.writing() as session:
        workers.register(session, "worker", resolve_host("local"))
    refused = api.post(f"/v1/plans/{plan_id}/runs")
    assert refused.status_code == 409
    assert refused.json()["detail"].startswith("the plan is for cpu-dual-socket")
    assert "CPU core" in refused.json()["detail"]
    assert '"emulate": true' in refused.json()["detail"]
    impossible = api.post("/v1/plans", json={"model": model_data(name="huge"), "host": "local"}).json()["id"]
    finish_plan(database, impossible, infeasible=True)
    assert "no placement to run" in api.post(f"/v1/plans/{impossible}/runs").json()["detail"]


@pytest.mark.torch
@ONLY_SQLITE
def test_a_plan_is_run_and_a_cancelled_run_ends_its_rank_processes(
    api: httpx.Client, database: Database, start_worker: StartWorker
) -> None:
    question = {"model": model_data(), "host": "local", "options": {"ranks": 2}}
    plan_id = api.post("/v1/plans", json=question).json()["id"]
    finish_plan(database, plan_id)
    question = {"model": model_data(), "host": "cpu-dual-socket", "options": {"ranks": 1}}
    elsewhere = api.post("/v1/plans", json=question).json()["id"]
    finish_plan(database, elsewhere)
    worker = start_worker()
    wait_until(lambda: api.get("/readyz").status_code == 200, START_S)
    key = {"Idempotency-Key": "once"}
    run = api.post(f"/v1/plans/{plan_id}/runs", json={"steps": 5}, headers=key)
    assert run.status_code == 202
    assert api.post(f"/v1/plans/{plan_id}/runs", json={"steps": 5}, headers=key).json()["id"] == run.json()["id"]
    wait_until(lambda: api.get(run.headers["location"]).json()["state"] not in ("queued", "running"), SOLVE_S)
    done = api.get(run.headers["location"]).json()
    assert done["state"] == "done", done["error"]
    assert done["measurement"]["steps"] == 5
    assert done["step_time_us"] == done["measurement"]["step_time_us"]
    assert api.get(f"/v1/plans/{plan_id}").json()["measured"]["run_id"] == done["id"]
    assert '"message"' in api.get(f"/v1/runs/{done['id']}/events").text

    emulated = api.post(f"/v1/plans/{elsewhere}/runs", json={"steps": 3, "emulate": True}).json()
    wait_until(lambda: api.get(f"/v1/runs/{emulated['id']}").json()["state"] not in ("queued", "running"), SOLVE_S)
    found = api.get(f"/v1/runs/{emulated['id']}").json()
    assert (found["state"], found["emulate"], found["verified"], found["step_time_us"]) == ("done", True, False, None), found["error"]
    assert found["measurement"]["emulated"]["holds"]
    assert api.get(f"/v1/plans/{elsewhere}").json()["measured"] is None

    endless = api.post(f"/v1/plans/{plan_id}/runs", json={"steps": 100_000}).json()["id"]
    warm = set(children_of(worker.pid, WARM.decode()))
    below = wait_until(lambda: found if len(found := descendants_of(worker.pid) - warm) >= 4 else None, SOLVE_S)
    assert api.post(f"/v1/runs/{endless}/cancel").json()["state"] == "cancelled"
    wait_until(lambda: not any(map(is_alive, below)) and descendants_of(worker.pid) <= warm, 30)
    assert [each["state"] for each in api.get(f"/v1/plans/{plan_id}/runs").json()["items"]] == ["cancelled", "done"]
