"""OpenTelemetry: a request and the jobs that it led to are one trace. FastAPI makes the spans of requests, workers make those of jobs.

Spans are sent over HTTP where OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT says; where neither is set none are made.
What else OpenTelemetry reads from the environment counts, too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from emplace.placement.errors import ToolError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NAME = "OTEL_SERVICE_NAME"
_LAST_SPANS_S = 2.0
"""How long the end of a process may wait for whoever takes its last spans."""


@contextmanager
def sending_traces(part: str) -> Iterator[None]:
    """Send the spans that this process makes in here. `part`, such as `api`, names it where OTEL_SERVICE_NAME doesn't.

    Raises ToolError where they are asked for and the extra `traces` is not installed.
    """
    endpoint = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    if endpoint is None:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ToolError(f"{endpoint} asks for traces, which take {error.name}: pip install '.[traces]' in a checkout of Emplace") from None
    named = {} if os.environ.get(_NAME) else {"service.name": f"emplace-{part}"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter := OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        giving_up = threading.Timer(_LAST_SPANS_S, exporter.shutdown)
        giving_up.start()
        provider.shutdown()
        giving_up.cancel()


def carried() -> dict[str, str]:
    """What a message takes along, so that its job's span belongs to the trace of who queued it; nothing where there is none."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


@contextmanager
def job_span(kind: str, job_id: str, queued_by: Mapping[str, str] | None) -> Iterator[None]:
    """The span of a job, in the trace that was `carried` along with its message."""
    tracer, parent = trace.get_tracer("emplace"), propagate.extract(queued_by or {})
    attributes = {"emplace.job.kind": kind, "emplace.job.id": job_id}
    with tracer.start_as_current_span(f"{kind} job", context=parent, kind=SpanKind.CONSUMER, attributes=attributes):
        yield


def say_outcome(state: str, error: str | None) -> None:
    """Add to the job's span how it ended."""
    span = trace.get_current_span()
    span.set_attribute("emplace.job.state", state)
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, error))
