"""Connections that send little, late or nothing, and clients that leave."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def half_open(api: httpx.Client, sent: bytes) -> socket.socket:
    connection = socket.create_connection((api.base_url.host, api.base_url.port or 80), timeout=10)
    connection.sendall(sent)
    return connection


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_REQUEST_TIMEOUT_SECONDS", "0.5")


def test_half_a_request_is_given_up(impatient: None, api: httpx.Client) -> None:
    del impatient
    head = b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\n"
    body = head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    answers = {
        b"": b"",
        head: b"",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he": b"HTTP/1.1 200",
        body: b"HTTP/1.1 408",
    }
    with ExitStack() as opened:
        connections = [opened.enter_context(half_open(api, sent)) for sent in answers]
        for connection, answer in zip(connections, answers.values(), strict=True):
            heard = b""
            while piece := connection.recv(65536):  # until it is closed
                heard += piece
            assert heard.startswith(answer)
            assert bool(heard) == bool(answer)


def test_who_drips_is_given_up_too(impatient: None, api: httpx.Client) -> None:
    """A byte now and then neither makes headers endless nor a body."""
    del impatient
    head = b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\n"
    for sent in (head + b"X: ", head + b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"):
        with half_open(api, sent) as connection:
            assert drips_sent(connection) < 35


def test_headers_without_an_end_are_refused(api: httpx.Client) -> None:
    with half_open(api, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n") as connection:
        for _ in range(8):  # each is read before the next is there
            connection.sendall(b"X: " + 2**13 * b"x" + b"\r\n")
            time.sleep(0.05)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")
        assert connection.recv(65536) == b""
    assert api.get("/healthz").status_code == 200


def test_line_ends_alone_keep_no_connection_open(impatient: None, api: httpx.Client) -> None:
    del impatient
    with half_open(api, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        assert health_on(connection).startswith(b"HTTP/1.1 200")
        assert drips_sent(connection, b"\r\n") < 35


def drips_sent(connection: socket.socket, drip: bytes = b"x") -> int:
    """How many drips, of at most 50 with 0.1 s between them, before the server has closed."""
    for number in range(50):
        try:
            connection.sendall(drip)
        except OSError:
            return number
        time.sleep(0.1)
    return 50


def test_a_client_that_is_slow_and_in_time_is_served(impatient: None, api: httpx.Client) -> None:
    del impatient

    def pieces() -> Any:
        for piece in (b'{"model": "ncf",', b' "host": "zi', b'on"}'):
            yield piece
            time.sleep(0.2)

    assert api.post("/v1/plans", content=pieces(), headers={"content-type": "application/json"}).status_code == 202
    with half_open(api, b"GET /healthz HTTP/1.1\r\n") as connection:
        time.sleep(0.2)
        connection.sendall(b"Host: localhost\r\n\r\n")
        assert health_on(connection).startswith(b"HTTP/1.1 200")
        time.sleep(1)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert health_on(connection).startswith(b"HTTP/1.1 200")


def health_on(connection: socket.socket) -> bytes:
    """The whole answer to GET /healthz."""
    heard = b""
    while not heard.endswith(b"}"):
        heard += connection.recv(65536)
    return heard


def test_clients_that_leave_are_no_errors(api: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    wait = b"Prefer: wait=60\r\n\r\n" + json.dumps({"model": "ncf", "host": "zion"}).encode().ljust(100)
    for sent in [head + b"\r\n{"] * 30 + [head + wait] * 10 + [b"GET /v1/plans HTTP/1.1\r\nHost: localhost\r\n\r\n"] * 30:
        half_open(api, sent).close()
    assert api.get("/v1/plans").status_code == 200
    time.sleep(1)
    assert [
        record.getMessage() for record in caplog.records if record.levelname != "INFO" and record.name.startswith(("uvicorn", "emplace"))
    ] == []
