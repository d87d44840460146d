"""The service's benchmark: its clients count what they were answered, and its table has a row for each part."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchmarks import dashboard, service
from benchmarks.markdown import beside_reach
from benchmarks.service_load import by_chance, closed_loop, get, post, small_question


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server that answers GET, refuses POST, and hangs up on /gone."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/gone":
                self.close_connection = True
                return
            self._answer(200)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(500)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_every_answer_is_counted(port: int) -> None:
    asked = [get("/"), get("/gone"), post("/", small_question(1))] * 4
    answers, seconds = asyncio.run(closed_loop(port, 3, iter(asked)))
    figures = answers.figures()
    assert (figures["requests"], figures["errors"], figures["of_500_and_over"]) == (12, 8, 8)
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["longest_ms"] <= 1000 * seconds
    late = asyncio.run(by_chance(port, 200.0, iter([get("/")] * 10))).figures()
    assert (late["requests"], late["errors"]) == (10, 0)


@pytest.mark.parametrize("reach", [service.REACH, dashboard.REACH])
def test_the_table_has_a_row_for_each_part(reach: dict[str, str]) -> None:
    rows = list(beside_reach([{"part": part, "p99_ms": 12.345} for part in reach], reach))
    assert rows[1:] == [f"| {part} | p99 ms 12.35 | {reach[part]} |" for part in reach]
