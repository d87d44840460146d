"""What a planner makes of a service's answers; the service here says what a test wants it to."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType

from emplace import conversations
from emplace.placement.plan import Plan
from tests.torchrec.models import config, model, planner, sharders

pytestmark = pytest.mark.torch

Answer = tuple[int, Any]
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a service that gives these answers in turn, then the last one again, and returns its URL."""
    servers: list[HTTPServer] = []

    def start(*answers: Answer) -> str:
        left = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def do_GET(self) -> None:
                status, body = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def stored() -> Plan:
    made = planner()
    made.plan(model(config("a")), sharders())
    assert made.last_plan is not None
    return made.last_plan


def _refused(url: str) -> str:
    with pytest.raises(PlannerError) as error:
        planner(server=url).plan(model(config("a")), sharders())
    assert error.value.error_type is PlannerErrorType.OTHER
    return str(error.value)


def test_a_plan_that_is_waited_for(serve: Serve, stored: Plan) -> None:
    made = planner(server=serve((202, {"id": "p1", "state": "queued"}), (200, {"id": "p1", "state": "done", "plan": stored.to_data()})))
    made.plan(model(config("a")), sharders())
    assert made.last_plan == stored


def test_answers_that_are_no_plan(serve: Serve, stored: Plan) -> None:
    assert "answered 429: too many plans" in _refused(serve((429, {"detail": "too many plans"})))
    assert "is no Emplace service" in _refused(serve((200, b"<html>")))
    assert "plan p1 is failed: out of memory" in _refused(serve((200, {"id": "p1", "state": "failed", "error": "out of memory"})))
    other = stored.model_copy(
        update={"question": stored.question.model_copy(update={"model": stored.question.model.model_copy(update={"name": "b"})})}
    )
    assert "not the model that was asked about" in _refused(serve((200, {"state": "done", "plan": other.to_data()})))


def test_a_service_that_takes_the_question_and_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solve may last half a second here, and the way there and back another half."""
    monkeypatch.setattr(conversations, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url, started = f"http://127.0.0.1:{silent.getsockname()[1]}", time.monotonic()
        with pytest.raises(PlannerError) as error:
            planner(server=url, timeout_seconds=0.5).plan(model(config("a")), sharders())
    assert error.value.error_type is PlannerErrorType.OTHER
    assert url in str(error.value)
    assert time.monotonic() - started < 30


def test_a_plan_that_fails_the_audit(serve: Serve, stored: Plan) -> None:
    wrong = stored.to_data()
    wrong["step_time_us"] /= 2
    with pytest.raises(PlannerError, match="step_time_us"):
        planner(server=serve((200, {"state": "done", "plan": wrong}))).plan(model(config("a")), sharders())
