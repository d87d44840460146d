"""Workers of several versions on one database."""

from __future__ import annotations

import json

import httpx
import pytest

from emplace.app.database import workers
from emplace.app.database.connection import Database
from emplace.app.database.tables import WorkerRow
from tests.app.questions import a_host


def test_a_worker_of_another_version_is_left_out_and_logged(
    api: httpx.Client, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    host = a_host().to_data() | {"name": "ours", "fingerprint": "ours"}
    newer = host | {"name": "theirs", "fingerprint": "theirs", "key_of_a_newer_version": 1}
    with database.writing() as session:
        workers.register(session, "old", a_host().model_copy(update={"name": "ours", "fingerprint": "ours"}))
        session.add(WorkerRow(id="new", machine="m", pid=1, host=json.dumps(newer), host_fingerprint="theirs"))
    listed = api.get("/v1/hosts")
    assert listed.status_code == 200, listed.text
    names = [each["name"] for each in listed.json()["items"]]
    assert "ours" in names
    assert "theirs" not in names
    assert "host of worker new" in caplog.text
    assert "theirs; machines with a worker: ours" in api.post("/v1/profiles", json={"fingerprint": "theirs"}).json()["detail"]
