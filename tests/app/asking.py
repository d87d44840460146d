"""Plans asked for over the API, and waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.app.processes import WorkerProcess, wait_until
from tests.app.questions import BUSY_HOST, BUSY_OPTIONS, QUICK_OPTIONS, busy_model_data, model_data

StartWorker = Callable[..., WorkerProcess]
Query = Callable[[str], list[tuple[object, ...]]]

START_S, SOLVE_S = 60, 90
ONLY_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def ask_small(api: httpx.Client) -> str:
    question = {"model": model_data(), "host": "cpu-dual-socket", "options": QUICK_OPTIONS | {"ranks": 2}}
    return str(api.post("/v1/plans", json=question).json()["id"])


def ask_busy(api: httpx.Client) -> str:
    question = {"model": busy_model_data(), "host": BUSY_HOST, "options": BUSY_OPTIONS}
    return str(api.post("/v1/plans", json=question).json()["id"])


def state_of(api: httpx.Client, plan_id: str) -> str:
    response = api.get(f"/v1/plans/{plan_id}", timeout=5)
    assert response.status_code == 200
    return str(response.json()["state"])


def wait_for(api: httpx.Client, plan_id: str, state: str, timeout_s: float = SOLVE_S) -> dict[str, Any]:
    """Also shows that the API answers all the while."""
    wait_until(lambda: state_of(api, plan_id) == state, timeout_s)
    found: dict[str, Any] = api.get(f"/v1/plans/{plan_id}").json()
    return found
