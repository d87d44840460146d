"""`emplace serve` as a person starts it: the service looks after its worker, and both end together."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from emplace.app.server import serve as serve_api
from emplace.app.settings import Settings
from emplace.placement.errors import ToolError
from tests.app.asking import START_S, Query, ask_busy, ask_small, wait_for
from tests.app.processes import children_of, is_alive, step_processes, wait_until
from tests.app.questions import BUSY_HOST, BUSY_OPTIONS, busy_model_data

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


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


def test_an_answer_is_sent_at_once(serve: tuple[httpx.Client, subprocess.Popen[bytes]]) -> None:
    """Head and body are sent apart. The second waited for the first to be acknowledged: 40 ms on a connection that is kept open."""
    seconds = []
    for _ in range(20):
        started = time.monotonic()
        assert serve[0].get("/healthz").content
        seconds.append(time.monotonic() - started)
    assert min(seconds[1:]) < 0.035


def test_a_check_in_hand_does_not_hold_up_the_end_and_its_client_is_told(
    serve: tuple[httpx.Client, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    client, process = serve
    check = {"model": busy_model_data(), "host": BUSY_HOST, "options": BUSY_OPTIONS, "plan": True}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.post, "/v1/checks", json=check)
        wait_until(step_processes, START_S)
        process.terminate()
        told = answer.result(5)
    assert (told.status_code, told.headers["content-type"]) == (503, "application/problem+json")
    assert "the service is ending" in told.json()["detail"]
    assert told.headers["retry-after"]
    process.wait(10)
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


def test_who_still_waits_at_the_end_is_told(
    serve: tuple[httpx.Client, subprocess.Popen[bytes]], settings: Settings, tmp_path: Path
) -> None:
    client, process = serve
    other = sqlite3.connect(settings.database_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.post, "/v1/plans", json={"model": "ncf", "host": "zion"})
        time.sleep(0.5)
        process.terminate()
        told = answer.result(5)
    other.close()
    assert (told.status_code, told.headers["content-type"]) == (503, "application/problem+json")
    assert told.headers["retry-after"]
    process.wait(20)
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


def test_a_worker_that_is_killed_again_and_again_is_started_again_at_once(serve: tuple[httpx.Client, subprocess.Popen[bytes]]) -> None:
    """Only one that fails by itself is given time."""
    _, process = serve
    started = time.monotonic()
    for _ in range(5):
        (worker,) = wait_until(lambda: children_of(process.pid, "emplace.app.jobs.worker"), START_S)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: worker not in children_of(process.pid, "emplace.app.jobs.worker"), START_S)  # noqa: B023
    assert time.monotonic() - started < 6  # with a pause that grows it would be 0.1 + 0.5 + 1.5 + 3.5 + 7.5 s


def test_without_a_worker_it_is_not_ready(serve: tuple[httpx.Client, subprocess.Popen[bytes]], query: Query) -> None:
    client, _ = serve
    worker = int(str(query("SELECT pid FROM workers")[0][0]))
    os.kill(worker, signal.SIGSTOP)
    refused = wait_until(lambda: answer if (answer := client.get("/readyz")).status_code == 503 else None, 10)
    assert "no worker is alive" in refused.json()["detail"]
    assert client.get("/healthz").status_code == 200
    assert "emplace_workers 0.0" in client.get("/metrics").text
    os.kill(worker, signal.SIGCONT)
    wait_until(lambda: client.get("/readyz").status_code == 200, START_S)


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_an_address_that_others_reach_is_not_served_without_a_word(settings: Settings, address: str) -> None:
    del settings
    with pytest.raises(ToolError, match=r"asks for keys, and there is none yet: make one with 'emplace keys make.*--no-auth"):
        serve_api(address, 0)


def test_no_auth_says_what_it_means(settings: Settings, tmp_path: Path) -> None:
    del settings
    log = tmp_path / "open.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "emplace.app.cli", "serve", "--host", "0.0.0.0", "--port", "0", "--no-auth"], stderr=output
        )
    try:
        url = wait_until(lambda: re.search(r"http://0.0.0.0:\d+", log.read_text()), START_S)[0]
        assert "warning: --no-auth: whoever reaches 0.0.0.0 may plan, run and delete" in log.read_text()
        assert httpx.get(f"{url}/healthz").status_code == 200
    finally:
        process.terminate()
        process.wait(20)


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
        ("0", "greater than or equal to 1"),
        ("1e-9", "greater than or equal to 1"),
        ("1e11", "less than or equal to 86400"),
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


@pytest.mark.parametrize(
    ("name", "value", "most"), [("EMPLACE_PLANS_AT_ONCE", "99999999999999999999", 1024), ("EMPLACE_KEEP_DAYS", "1000000", 36_500)]
)
def test_slots_and_dates_have_an_end(settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, value: str, most: int) -> None:
    del settings
    monkeypatch.setenv(name, value)
    with pytest.raises(ToolError, match=rf"^{name} must be less than or equal to {most} \(got '{value}'\)$"):
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


def test_a_variable_that_is_no_setting_is_named_with_the_nearest_that_is(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    del settings
    monkeypatch.setenv("EMPLACE_DATABSE_URL", "postgresql://a/b")
    monkeypatch.setenv("EMPLACE_ZZZ", "1")
    with pytest.raises(
        ToolError, match=r"(?s)^EMPLACE_DATABSE_URL is no setting; did you mean EMPLACE_DATABASE_URL\?\nEMPLACE_ZZZ .*there are"
    ):
        Settings.from_environment()


def test_what_a_cluster_sets_for_a_service_of_this_name_is_no_mistake(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    del settings
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8000_TCP", "PORT_8000_TCP_ADDR", "API_SERVICE_HOST"):
        monkeypatch.setenv(f"EMPLACE_{name}", "x")
    Settings.from_environment()
