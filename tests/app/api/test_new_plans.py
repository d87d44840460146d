"""Many plans asked for at the same moment: each has an answer of its own, and what is told is what is stored."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from emplace.app.database.connection import Database
from emplace.app.database.jobs import JobRow
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.warm import WarmProcess
from emplace.app.settings import Settings
from emplace.app.web.service import PATIENCE_S
from tests.app.asking import Query
from tests.app.conftest import served
from tests.app.finished import finish_plan
from tests.app.questions import model_data

CLIENTS = 60
Held = Callable[[], AbstractContextManager[None]]


def question(seed: int, **keys: Any) -> dict[str, Any]:
    return {"model": model_data(), "host": "cpu-dual-socket", "options": {"seed": seed}, **keys}


@pytest.fixture
def held(settings: Settings) -> Held:
    """Nobody else writes within it: who asks meanwhile waits, and is written together afterwards."""

    @contextmanager
    def hold() -> Iterator[None]:
        engine = create_engine(Database(settings.database_url).url)
        with engine.connect() as connection:
            lock = "BEGIN IMMEDIATE" if engine.dialect.name == "sqlite" else "LOCK TABLE plans IN EXCLUSIVE MODE"
            connection.execute(text(lock))
            yield
        engine.dispose()

    return hold


def ask_at_once(api: httpx.Client, bodies: Sequence[dict[str, Any]], held: Held) -> list[httpx.Response]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        with held():
            asked = [pool.submit(api.post, "/v1/plans", json=body) for body in bodies]
            time.sleep(1.5)
        return [each.result() for each in asked]


@pytest.fixture
def room_for_12(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_PLAN_QUEUE", "12")


def test_new_equal_bad_answered_and_too_many_questions_at_once(
    room_for_12: None, api: httpx.Client, database: Database, query: Query, held: Held
) -> None:
    del room_for_12
    answered = api.post("/v1/plans", json=question(100)).json()["id"]
    finish_plan(database, answered)
    twice = [question(seed) for seed in range(20) for _ in range(2)]
    answers = ask_at_once(api, [*twice, *[question(100)] * 5, *[question(0, host="nowhere")] * 5], held)
    assert {(each.status_code, each.json()["id"]) for each in answers[40:45]} == {(200, answered)}
    assert answers[40].json()["plan"]["status"] == "feasible"
    assert {each.status_code for each in answers[45:]} == {422}
    assert [each.status_code for each in answers[:40:2]] == [each.status_code for each in answers[1:40:2]], "equal ones fare alike"
    taken = [(each.json()["id"], json.loads(each.request.content)["options"]) for each in answers[:40] if each.status_code == 202]
    refused = [each for each in answers[:40] if each.status_code == 429]
    assert (len(taken), len(refused)) == (24, 16)
    assert {(each.json()["detail"], each.headers["retry-after"]) for each in refused} == {
        ("12 plans wait for a worker already; ask again", "5")
    }
    with database.reading() as session:
        stored = {row[0]: json.loads(row[1])["options"]["seed"] for row in session.execute(text("SELECT id, question FROM plans"))}
    assert stored == {plan_id: options["seed"] for plan_id, options in taken} | {answered: 100}
    queue = JobQueue(database)
    waiting = queue.waiting(100)
    queue.close()
    assert {ticket.resource_id for ticket in waiting.values()} == stored.keys()
    assert {(ticket.number, message) for message, ticket in waiting.items()} == {(1, f"{plan_id}.1") for plan_id in stored}
    assert query("SELECT count(*) FROM plans WHERE state = 'queued' AND ticket = 1") == [(12,)]


def test_a_question_that_is_asked_for_more_urgently_at_the_same_time_is_as_urgent(api: httpx.Client, query: Query, held: Held) -> None:
    bodies = [question(seed, priority=priority) for seed in range(5) for priority in ("low", "high", "normal")]
    answers = ask_at_once(api, bodies, held)
    assert {each.status_code for each in answers} == {202}
    assert len({each.json()["id"] for each in answers}) == 5
    assert query("SELECT DISTINCT priority FROM plans") == [(1,)]


def test_one_that_can_not_be_stored_leaves_the_others_alone(
    api: httpx.Client, query: Query, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all = JobQueue.put_all

    def refusing(queue: JobQueue, session: Session, rows: Sequence[tuple[JobRow, dict[str, str]]]) -> None:
        if any('"seed":13' in getattr(row, "question", "") for row, _ in rows):
            raise ValueError("this one can't be queued")
        put_all(queue, session, rows)

    monkeypatch.setattr(JobQueue, "put_all", refusing)
    answers = ask_at_once(api, [question(seed) for seed in range(20)], held)
    assert [seed for seed, each in enumerate(answers) if each.status_code != 202] == [13]
    assert answers[13].status_code == 500
    assert query("SELECT count(*) FROM plans") == [(19,)]
    ids = [each.json()["id"] for each in answers if each.status_code == 202]
    assert query("SELECT count(*) FROM plans WHERE id IN ({})".format(",".join(f"'{each}'" for each in ids))) == [(19,)]


def test_equal_questions_to_two_services_at_once_share_their_plans(
    api: httpx.Client, settings: Settings, warm: WarmProcess, query: Query, held: Held
) -> None:
    other = Database(settings.database_url, patience_s=PATIENCE_S)
    bodies = [question(seed) for seed in range(15)]
    with served(settings, other, warm) as second, ThreadPoolExecutor(CLIENTS) as pool:
        with held():
            asked = [pool.submit(client.post, "/v1/plans", json=body) for body in bodies for client in (api, second)]
            time.sleep(1.5)
        answers = [each.result() for each in asked]
    other.close()
    assert {each.status_code for each in answers} == {202}
    assert [each.json()["id"] for each in answers[::2]] == [each.json()["id"] for each in answers[1::2]]
    assert query("SELECT count(*) FROM plans WHERE ticket = 1") == [(15,)]
