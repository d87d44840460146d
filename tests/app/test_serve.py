"""`emplace serve` as a person starts it: the service looks after its worker, and both end together."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from emplace.app.server import serve as serve_api
from emplace.app.settings import Settings
from emplace.placement.errors import ToolError
from tests.app.asking import START_S, Query, ask_busy, ask_small, wait_for
from tests.app.processes import is_alive, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def serve(settings: Settings, tmp_path: Path) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    del settings  # it set the environment
    log = tmp_path / "serve.log"
    with log.open("wb") as output:
        command = [sys.executable, "-c", "from emplace.app.server import serve; serve('127.0.0.1', 0)"]
        process = subprocess.Popen(command, stderr=output)
    url = wait_until(lambda: re.search(r"http://127.0.0.1:\d+", log.read_text()), START_S)[0]
    with httpx.Client(base_url=url, timeout=30) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200, START_S)
        yield client, process
    process.kill()
    process.wait(10)


def test_the_worker_is_started_again_and_ends_with_the_service(
    serve: tuple[httpx.Client, subprocess.Popen[bytes]], query: Query, tmp_path: Path
) -> None:
    client, process = serve
    plan_id = ask_small(client)
    wait_until(lambda: client.get(f"/v1/plans/{plan_id}").json()["state"] == "running", 20)
    first = int(str(query("SELECT pid FROM workers")[0][0]))
    os.kill(first, signal.SIGKILL)
    wait_for(client, plan_id, "done")
    second = int(str(query("SELECT pid FROM workers")[0][0]))
    assert first != second
    assert query("SELECT count(*) FROM workers") == [(1,)]
    busy = ask_busy(client)
    with httpx.stream("GET", f"{client.base_url}/v1/plans/{busy}/events", timeout=60) as progress:
        process.terminate()
        assert "event: end" not in progress.read().decode()
    process.wait(30)
    assert "Traceback" not in (tmp_path / "serve.log").read_text()
    assert not is_alive(second)
    assert query("SELECT count(*) FROM workers") == [(0,)]


def test_the_worker_ends_when_the_service_is_killed(serve: tuple[httpx.Client, subprocess.Popen[bytes]], query: Query) -> None:
    _, process = serve
    worker = int(str(query("SELECT pid FROM workers")[0][0]))
    process.kill()
    wait_until(lambda: not is_alive(worker), 20)


def test_a_port_that_is_taken_is_said_so(settings: Settings) -> None:
    del settings
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ToolError, match=r"can't listen on 127\.0\.0\.1 port"):
        serve_api("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0", "greater than 0"),
        ("-1", "greater than 0"),
        ("soon", "a number"),
        ("inf", "a finite number"),
        ("nan", "a finite number"),
    ],
)
def test_settings_say_which_variable_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch, value: str, rule: str) -> None:
    del settings
    monkeypatch.setenv("EMPLACE_WORKER_LEASE_SECONDS", value)
    with pytest.raises(ToolError, match=rf"^EMPLACE_WORKER_LEASE_SECONDS must be {rule} \(got '{value}'\)$"):
        Settings.from_environment()


def test_settings_name_every_wrong_variable_and_pass_empty_ones_over(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del settings
    monkeypatch.setenv("EMPLACE_DATABASE_URL", "")
    monkeypatch.setenv("EMPLACE_RUN_TIMEOUT_SECONDS", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EMPLACE_HOME", "~/here")
    found = Settings.from_environment()
    assert (found.home, found.run_timeout_seconds) == (tmp_path / "here", 1800.0)
    assert found.database_url == f"sqlite:///{tmp_path}/here/emplace.db"
    monkeypatch.setenv("EMPLACE_RUN_TIMEOUT_SECONDS", "-5")
    monkeypatch.setenv("EMPLACE_CHECK_CONCURRENCY", "1.5")
    with pytest.raises(ToolError, match=r"(?s)EMPLACE_RUN_TIMEOUT_SECONDS must .*\nEMPLACE_CHECK_CONCURRENCY must be a whole number"):
        Settings.from_environment()
