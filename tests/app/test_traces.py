"""What OpenTelemetry's collector is sent: a request and its job are one trace."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.app.asking import ask_small, wait_for
from tests.app.processes import wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class Collector(ThreadingHTTPServer):
    """Takes spans over OTLP, as a real collector does."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        """Each with the name of its service."""
        super().__init__(("127.0.0.1", 0), _Takes)


class _Takes(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for of_resource in sent.resource_spans:
            names = [each.value.string_value for each in of_resource.resource.attributes if each.key == "service.name"]
            for scope in of_resource.scope_spans:
                self.server.spans += [(names[0], span) for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        yield server
        server.shutdown()


def test_a_request_and_its_job_are_one_trace(collector: Collector, serve: tuple[httpx.Client, subprocess.Popen[bytes]]) -> None:
    client, process = serve
    plan_id = ask_small(client)
    wait_for(client, plan_id, "done")
    process.terminate()
    process.wait(30)
    [(part, asked)] = [each for each in collector.spans if each[1].name == "POST /v1/plans"]
    [(worked, job)] = [each for each in collector.spans if each[1].name == "solve job"]
    assert (part, worked) == ("emplace-api", "emplace-worker")
    assert job.trace_id == asked.trace_id
    assert job.parent_span_id in {span.span_id for _, span in collector.spans if span.trace_id == asked.trace_id}
    said = {each.key: each.value.string_value for each in job.attributes}
    assert said == {"emplace.job.kind": "solve", "emplace.job.id": plan_id, "emplace.job.state": "done"}


def test_a_collector_that_is_away_holds_up_neither_answers_nor_the_end(
    collector: Collector, serve: tuple[httpx.Client, subprocess.Popen[bytes]]
) -> None:
    client, process = serve
    collector.shutdown()
    collector.server_close()
    wait_for(client, ask_small(client), "done")
    started = time.monotonic()
    process.terminate()
    wait_until(lambda: process.poll() is not None, 20)
    assert time.monotonic() - started < 10


def test_traces_without_their_extra_are_refused_by_name(collector: Collector, database_url: str) -> None:
    del collector, database_url
    program = "import sys; sys.modules['opentelemetry.exporter'] = None; from emplace.app.server import serve; serve('127.0.0.1', 0)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT asks for traces" in ended.stderr
    assert "pip install '.[traces]'" in ended.stderr
