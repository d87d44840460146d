"""Requests that nobody wrote: few of those that `python -m benchmarks.generated_requests` makes, on a service without a worker process."""

from __future__ import annotations

import pytest

from benchmarks.generated_requests import Generated
from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.app.jobs.warm import WarmProcess
from emplace.app.settings import Settings
from emplace.planning import resolve_host
from tests.app.asking import ONLY_SQLITE, ask_small
from tests.app.conftest import served
from tests.app.finished import finish_plan

REQUESTS = 350


@ONLY_SQLITE
def test_no_generated_request_is_answered_against_the_openapi_page(
    settings: Settings, database: Database, warm: WarmProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    del settings
    monkeypatch.setenv("EMPLACE_WORKER_LEASE_SECONDS", "600")  # the worker that is told of lives as long as the test
    with database.writing() as session:
        workers.register(session, "here", resolve_host("local"))
    with served(Settings.from_environment(), database, warm) as api:
        finish_plan(database, ask_small(api))
        told = Generated(str(api.base_url).rstrip("/"), seed=0).run(REQUESTS)
    assert told.failures == {}
    assert told.of_500_and_over == 0
    assert told.requests >= REQUESTS / 2
    assert told.accepted >= told.requests / 2, told.figures()
