"""What Prometheus reads, and what the dashboard of Grafana asks for."""

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy.orm import Session

from emplace.app.database.connection import Database
from emplace.app.database.tables import PlanRow
from emplace.app.database.workers import WorkerObserver
from emplace.app.jobs.causes import cause_of
from emplace.app.web import metrics
from tests.app.asking import ONLY_SQLITE, ask_small
from tests.app.finished import finish_plan, measurement_of, store_run

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana.json"


@ONLY_SQLITE
def test_requests_queues_and_outcomes_are_counted(api: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_LAG", timedelta(0))
    monkeypatch.setattr(metrics, "_FRESH_S", 0.0)
    api.get("/metrics")
    ask_small(api)
    assert "emplace_plan_gap_count 0.0" in (waiting := api.get("/metrics").text)
    assert 'emplace_queue_depth{kind="plans"} 1.0' in waiting
    assert float(re.findall(r'emplace_queue_age_seconds\{kind="plans"\} (\S+)', waiting)[0]) > 0
    assert 'emplace_request_seconds_count{method="POST",route="/v1/plans",status="202"} 1.0' in waiting
    [plan_id] = [each["id"] for each in api.get("/v1/plans").json()["items"]]
    plan = finish_plan(database, plan_id)
    store_run(database, plan_id, measurement_of(plan))
    with database.writing() as session:
        broken = PlanRow(**{**_columns(session.get_one(PlanRow, plan_id)), "id": "0" * 32, "question_digest": "other", "state": "failed"})
        broken.error = "the solve process was ended by SIGKILL; the machine may have run out of memory"
        session.add(broken)
    for _ in range(2):  # each is observed once
        counted = api.get("/metrics").text
    assert "emplace_plan_gap_count 2.0" in counted
    assert "emplace_prediction_error_count 1.0" in counted
    assert 'emplace_job_seconds_count{kind="plans"} 2.0' in counted
    assert 'emplace_job_failures_total{cause="killed",kind="plans"} 1.0' in counted


@ONLY_SQLITE
def test_the_first_failure_is_a_rise(api: httpx.Client) -> None:
    """A series that begins with it has no rate: every cause of every kind is there from the start."""
    told = api.get("/metrics").text
    for kind in ("plans", "runs", "profiles", "studies"):
        for cause in ("timeout", "killed", "crash", "worker_lost", "defect", "refused"):
            assert f'emplace_job_failures_total{{cause="{cause}",kind="{kind}"}} 0.0' in told


def test_failures_are_counted_once_however_many_processes_answer() -> None:
    """Each API process counts all of them."""
    asked = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
    assert [each for each in asked if "failures" in each] == ["max by (kind, cause) (rate(emplace_job_failures_total[5m]))"]


@ONLY_SQLITE
def test_many_that_ask_are_told_what_was_counted_once(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting takes the database; those that look after the service must not be a load on it."""
    monkeypatch.setattr(metrics, "_FRESH_S", 600.0)
    assert 'emplace_queue_depth{kind="plans"} 0.0' in api.get("/metrics").text
    ask_small(api)
    assert 'emplace_queue_depth{kind="plans"} 0.0' in api.get("/metrics").text
    monkeypatch.setattr(metrics, "_FRESH_S", 0.0)
    assert 'emplace_queue_depth{kind="plans"} 1.0' in api.get("/metrics").text


@ONLY_SQLITE
def test_who_never_began_is_no_outcome(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_LAG", timedelta(0))
    monkeypatch.setattr(metrics, "_FRESH_S", 0.0)
    api.get("/metrics")
    api.post(f"/v1/plans/{ask_small(api)}/cancel")
    counted = api.get("/metrics").text
    assert 'emplace_resources{kind="plans",state="cancelled"} 1.0' in counted
    assert 'emplace_job_seconds_count{kind="plans"}' not in counted


@ONLY_SQLITE
def test_probes_do_not_wait_for_metrics(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two scrapes at once used to take both threads of those that look after the service."""
    begun, may_go_on, look = threading.Event(), threading.Event(), metrics.Metrics._look

    def slow_look(self: metrics.Metrics, session: Session, workers: WorkerObserver) -> None:
        begun.set()
        assert may_go_on.wait(30)
        look(self, session, workers)

    monkeypatch.setattr(metrics.Metrics, "_look", slow_look)

    def scrape(accept: str) -> int:
        return httpx.get(f"{api.base_url}/metrics", headers={"Accept": accept}, timeout=60).status_code

    with ThreadPoolExecutor() as pool:
        scrapes = [pool.submit(scrape, accept) for accept in ("text/plain", "application/openmetrics-text; version=1.0.0")]
        assert begun.wait(20)
        time.sleep(0.3)  # the other one is there too
        try:
            assert "no worker is alive" in api.get("/readyz", timeout=10).text
        finally:
            may_go_on.set()
        assert [each.result() for each in scrapes] == [200, 200]


def _columns(row: PlanRow) -> dict[str, object]:
    return {column.name: getattr(row, column.name) for column in PlanRow.__table__.columns}


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("it took longer than 5 s and was ended", "timeout"),
        ("5 workers in turn ended while they worked on it", "worker_lost"),
        ("internal error: KeyError: 'x'", "defect"),
        ("the solve process ended with status 1: x", "crash"),
        ("question: /options/gap: must be less than 1", "refused"),
    ],
)
def test_causes(error: str, cause: str) -> None:
    assert cause_of(error) == cause


@ONLY_SQLITE
def test_the_dashboard_asks_for_what_there_is(api: httpx.Client) -> None:
    families = set(re.findall(r"^# TYPE (\w+) ", api.get("/metrics").text, re.MULTILINE))
    asked = set(re.findall(r"emplace_\w+", json.dumps([panel["targets"] for panel in json.loads(DASHBOARD.read_text())["panels"]])))
    assert len(asked) >= 8
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked} <= families
