"""A profile, a plan and a run in one request: each begins when the one before is done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from emplace.app.database import jobs, workers
from emplace.app.database.connection import Database
from emplace.app.database.jobs import JobRow, Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, ProfileRow, RunRow, now
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.warm import WarmProcess
from emplace.app.jobs.work import Worker
from emplace.app.settings import Settings
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan, Question
from emplace.placement.reading import read_text
from emplace.planning import answer
from tests.app.asking import Query
from tests.app.database.test_retention import MESSAGES
from tests.app.finished import measurement_of
from tests.app.questions import QUICK_OPTIONS, model_data
from tests.prices import bandwidth_prices

KINDS: dict[str, type[JobRow]] = {"profile": ProfileRow, "plan": PlanRow, "run": RunRow}


class HandWorker:
    """Does the job of a stage as a worker does, with the outcome that it is given."""

    def __init__(self, database: Database, queue: JobQueue, settings: Settings, api: httpx.Client) -> None:
        self._database, self._api = database, api
        self._worker = Worker(database, queue, settings, WarmProcess())

    def do(self, pipeline: str, stage: str, document: str | None, **columns: Any) -> dict[str, Any]:
        """The pipeline after it. Without a document the job fails."""
        location = str(next(each for each in self.look(pipeline)["stages"] if each["stage"] == stage)["location"])
        with self._database.writing() as session:
            row = jobs.find(session, KINDS[stage], location.rpartition("/")[2])
            assert row is not None
            ticket = Ticket(KINDS[stage], row.id, row.ticket)
            assert jobs.take_up(session, ticket) is not None
        outcome = State.DONE if document else State.FAILED
        self._worker._finish(ticket, outcome, document=document, **columns)
        return self.look(pipeline)

    def look(self, pipeline: str) -> dict[str, Any]:
        with self._database.writing() as session:
            workers.beat(session, "here")
        found: dict[str, Any] = self._api.get(f"/v1/pipelines/{pipeline}").json()
        return found


@pytest.fixture
def worker(database: Database, settings: Settings, api: httpx.Client, here: HostSpec) -> Iterator[HandWorker]:
    with database.writing() as session:
        workers.register(session, "here", here)
    queue = JobQueue(database)
    yield HandWorker(database, queue, settings, api)
    queue.close()


def states(pipeline: dict[str, Any]) -> tuple[str, ...]:
    return pipeline["state"], *(stage["state"] for stage in pipeline["stages"])


def measured_here(here: HostSpec) -> CostModel:
    return CostModel.model_validate(bandwidth_prices(here).to_data() | {"source": "measured", "fingerprint": here.fingerprint, "ranks": 1})


def ask(api: httpx.Client, **options: Any) -> httpx.Response:
    return api.post("/v1/pipelines", json={"model": model_data(), "host": "local", "options": QUICK_OPTIONS | {"ranks": 1} | options})


def solved(database: Database, location: str) -> Plan:
    with database.reading() as session:
        question = session.get_one(PlanRow, location.rpartition("/")[2]).question
    return answer(read_text(question, Question, source="question", as_json=True))


def test_each_stage_follows_the_one_before(api: httpx.Client, worker: HandWorker, database: Database, here: HostSpec) -> None:
    answered = ask(api, profile=True, run={"steps": 7})
    assert (answered.status_code, states(answered.json())) == (202, ("queued", "queued", "waiting", "waiting"))
    made = answered.json()["id"]
    model = measured_here(here)
    after = worker.do(made, "profile", model.canonical_json(), digest=model.content_digest())
    assert states(after) == ("running", "done", "queued", "waiting")
    plan = solved(database, after["stages"][1]["location"])
    assert plan.question.cost_model.source == "measured"
    after = worker.do(made, "plan", plan.canonical_json(), status=plan.status, step_time_us=plan.step_time_us)
    assert states(after) == ("running", "done", "done", "queued")
    assert api.get(after["stages"][2]["location"]).json()["steps"] == 7
    after = worker.do(made, "run", measurement_of(plan).canonical_json(), verified=True)
    assert states(after) == ("done", "done", "done", "done")
    assert after["stages"][2]["verified"]
    # The profile is fresh, and the plan is there: only the run is left.
    again = ask(api, profile=True, run=True).json()
    assert states(again) == ("running", "done", "done", "queued")
    assert api.post(f"/v1/pipelines/{again['id']}/cancel").json()["state"] == "cancelled"
    assert api.post(f"/v1/pipelines/{made}/cancel").status_code == 409


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "done"),
        ({"finished_at": now() - timedelta(days=8)}, "queued"),
        ({"ranks": 2}, "queued"),
        ({"source": CostSource.DATASHEET}, "queued"),
        ({"host_fingerprint": "another's"}, "queued"),
        ({"state": State.FAILED}, "queued"),
    ],
)
def test_only_a_fresh_profile_of_so_many_ranks_here_is_not_measured_anew(
    api: httpx.Client, worker: HandWorker, database: Database, here: HostSpec, changes: dict[str, Any], state: str
) -> None:
    del worker
    model = measured_here(here)
    kept: dict[str, Any] = {"host_name": here.name, "host_fingerprint": here.fingerprint, "source": CostSource.MEASURED, "ranks": 1}
    kept |= {"state": State.DONE, "finished_at": now() - timedelta(days=6), "document": model.canonical_json()}
    with database.writing() as session:
        session.add(ProfileRow(**kept | changes))
    asked = ask(api, profile={"max_age_days": 7})
    assert asked.json()["stages"][0]["state"] == state, asked.text


def test_it_ends_with_a_stage_that_fails_and_runs_nothing_without_a_placement(api: httpx.Client, worker: HandWorker) -> None:
    made = ask(api, profile=True, run=True).json()["id"]
    assert states(worker.do(made, "profile", None, error="no memory")) == ("failed", "failed", "waiting", "waiting")
    made = ask(api, run=True).json()["id"]
    assert states(worker.do(made, "plan", "{}", status="infeasible")) == ("done", "done", "skipped")


def test_it_outlives_its_profile_and_goes_with_its_plan(
    api: httpx.Client, worker: HandWorker, database: Database, here: HostSpec, query: Query
) -> None:
    made, model = ask(api, profile=True).json()["id"], measured_here(here)
    after = worker.do(made, "profile", model.canonical_json(), digest=model.content_digest())
    profile, plan = (each["location"] for each in after["stages"])
    assert states(worker.do(made, "plan", "{}", status="infeasible")) == ("done", "done", "done")
    assert api.delete(profile).status_code == 204
    assert states(worker.look(made)) == ("done", "done", "done")
    assert api.delete(plan).status_code == 204
    assert api.get(f"/v1/pipelines/{made}").status_code == 404
    assert query(f"SELECT count(*) FROM {MESSAGES[database.engine.dialect.name]}") == [(0,)]


@pytest.fixture
def longer_queue_of_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_PLAN_QUEUE", "2")
    monkeypatch.setenv("EMPLACE_MEASUREMENT_QUEUE", "1")


def test_its_plan_waits_where_there_is_room_for_plans(longer_queue_of_plans: None, api: httpx.Client) -> None:
    del longer_queue_of_plans
    assert [ask(api, seed=seed).status_code for seed in range(3)] == [202, 202, 429]


def test_what_is_wrong_is_refused(api: httpx.Client, worker: HandWorker) -> None:
    del worker
    assert ask(api, run={"stepz": 3}).json()["errors"][0]["pointer"] == "/options/run/stepz"
    assert ask(api, gap=7).json()["errors"][0]["pointer"] == "/options/gap"
    assert api.post("/v1/pipelines", json={"model": "ncf", "host": "zion", "options": "none"}).json()["errors"][0]["pointer"] == "/options"
    elsewhere = {"model": model_data(), "host": "dgx-h100"}
    assert api.post("/v1/pipelines", json=elsewhere | {"options": {"profile": True}}).status_code == 409
    assert api.post("/v1/pipelines", json=elsewhere | {"options": {"run": True}}).status_code == 409
    assert api.post("/v1/pipelines", json=elsewhere | {"options": {"run": {"emulate": True}}}).status_code == 202
    assert api.get("/v1/pipelines/none").status_code == 404
