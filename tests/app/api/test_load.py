"""Many clients at once: none is starved, none waits behind work that is not its own."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from fastapi.openapi.utils import get_openapi

from emplace.app.api import openapi
from tests.app.asking import ONLY_SQLITE, ask_small
from tests.app.processes import step_processes, wait_until
from tests.app.questions import BUSY_HOST, BUSY_OPTIONS, busy_model_data, model_data

BUSY = {"model": busy_model_data(), "host": BUSY_HOST, "options": BUSY_OPTIONS, "plan": True}
SMALL = {"model": model_data(), "host": "cpu-dual-socket"}
CLIENTS = 120
AT_ONCE = httpx.Limits(max_connections=None, max_keepalive_connections=None)


def statuses(api: httpx.Client, paths: list[str], each: int) -> list[int]:
    """The answers to each path, asked `each` times at once, every time on a connection of its own."""

    async def ask() -> list[int]:
        async with httpx.AsyncClient(base_url=api.base_url, timeout=30, limits=AT_ONCE) as client:
            answers = await asyncio.gather(*(client.get(path) for path in paths for _ in range(each)))
            return [answer.status_code for answer in answers]

    return asyncio.run(ask())


def test_more_readers_than_connections_are_all_answered(api: httpx.Client) -> None:
    """Threads used to wait for connections, and those who held these for threads: all at once, for ever."""
    ask_small(api)
    assert statuses(api, ["/v1/plans?limit=20"], CLIENTS) == [200] * CLIENTS


def test_all_kinds_of_requests_at_once_are_answered(api: httpx.Client) -> None:
    plan_id = ask_small(api)
    paths = ["/", f"/plans/{plan_id}", f"/v1/plans/{plan_id}", "/v1/models", "/v1/profiles", "/metrics"]
    assert statuses(api, paths, 20) == [200] * 120


@pytest.fixture
def one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_CHECK_CONCURRENCY", "1")
    monkeypatch.setenv("EMPLACE_CHECK_QUEUE", "2")


@ONLY_SQLITE
def test_checks_wait_in_a_queue_of_their_own_and_are_refused_when_it_is_full(one_check: None, api: httpx.Client) -> None:
    del one_check

    async def crowd() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=api.base_url, timeout=30, limits=AT_ONCE) as client:
            checks = [asyncio.create_task(client.post("/v1/checks", json=BUSY)) for _ in range(50)]
            while sum(check.done() for check in checks) < 47:
                await asyncio.sleep(0.1)
            started = time.monotonic()
            for path in ("/v1/plans", "/", "/metrics", "/healthz"):
                assert (await client.get(path)).status_code == 200
            assert time.monotonic() - started < 5
            answered = [check.result() for check in checks if check.done()]
            for check in checks:
                check.cancel()
            return answered

    answered = asyncio.run(crowd())
    assert {(answer.status_code, answer.headers["content-type"]) for answer in answered} == {(429, "application/problem+json")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answered)
    assert len(answered) == 47
    # The one that was solved ended, and those that waited leave the queue as soon as it is seen that their clients have gone.
    wait_until(lambda: not step_processes(), 10)
    wait_until(lambda: api.post("/v1/checks", json=SMALL | {"options": {"work_limit": 2.0, "ranks": 2}}).status_code == 200, 10)


@ONLY_SQLITE
def test_who_leaves_the_queue_of_checks_makes_room_at_once(one_check: None, api: httpx.Client) -> None:
    del one_check

    async def take_a_place_that_was_left() -> None:
        async with httpx.AsyncClient(base_url=api.base_url, timeout=60, limits=AT_ONCE) as client:
            first, *waiting = [asyncio.create_task(client.post("/v1/checks", json=BUSY)) for _ in range(3)]
            while await finds_a_place(client):
                pass  # they are not all there yet: this one took a place, and left it
            for check in waiting:
                check.cancel()
            async with asyncio.timeout(10):
                while not await finds_a_place(client):
                    await asyncio.sleep(0.1)
            first.cancel()

    asyncio.run(take_a_place_that_was_left())


async def finds_a_place(client: httpx.AsyncClient) -> bool:
    """Whether a check may wait, which it does for a second and a half; False when it is refused, as the queue is full."""
    try:
        return (await client.post("/v1/checks", json=BUSY, timeout=1.5)).status_code != 429
    except httpx.ReadTimeout:
        return True


@ONLY_SQLITE
@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_others_are_answered_while_the_api_is_described(api: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def slowly(**given: Any) -> dict[str, Any]:
        begun.set()
        assert may_go_on.wait(30)
        return get_openapi(**given)

    monkeypatch.setattr(openapi, "get_openapi", slowly)
    with ThreadPoolExecutor() as others:
        asked = others.submit(api.get, path)
        assert begun.wait(20)
        try:
            assert api.get("/healthz", timeout=5).status_code == 200
        finally:
            may_go_on.set()
        assert asked.result().status_code == 200
