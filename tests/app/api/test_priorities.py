"""Plans that wait: the most urgent first, then in the order in which they were asked for."""

from __future__ import annotations

import httpx
import pytest

from tests.app.asking import ONLY_SQLITE, Query, StartWorker, wait_for
from tests.app.questions import QUICK_OPTIONS, model_data


def ask(api: httpx.Client, seed: int, **keys: object) -> httpx.Response:
    options = QUICK_OPTIONS | {"ranks": 2, "seed": seed}
    return api.post("/v1/plans", json={"model": model_data(), "host": "cpu-dual-socket", "options": options, **keys})


@ONLY_SQLITE
def test_the_most_urgent_is_solved_first_and_equal_questions_are_as_urgent_as_the_most_urgent(
    api: httpx.Client, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch, query: Query
) -> None:
    monkeypatch.setenv("EMPLACE_PLANS_AT_ONCE", "1")
    asked = {seed: ask(api, seed, priority=priority).json() for seed, priority in enumerate(("low", "normal", "high", "low"))}
    asked[4] = ask(api, 4).json()
    assert [asked[seed]["priority"] for seed in range(5)] == ["low", "normal", "high", "low", "normal"]
    hastened = ask(api, 3, priority="high").json()
    assert (hastened["id"], hastened["priority"]) == (asked[3]["id"], "high")
    assert ask(api, 2, priority="low").json()["priority"] == "high"
    pages = [api.get(f"/plans/{asked[seed]['id']}", params={"format": "json"}).json() for seed in range(5)]
    assert [page["ahead"] for page in pages] == [4, 2, 0, 1, 3]
    start_worker()
    wait_for(api, asked[0]["id"], "done")
    assert query("SELECT id FROM plans ORDER BY started_at") == [(asked[seed]["id"],) for seed in (2, 3, 1, 4, 0)]


@ONLY_SQLITE
def test_another_priority_is_refused_by_name(api: httpx.Client) -> None:
    answer = ask(api, 0, priority="urgent")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/priority"
