"""What Prometheus reads: how requests fare, what waits, and how the jobs ended that did so since it last asked."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from sqlalchemy import func, select
from sqlalchemy.orm import Session
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emplace.app.database import jobs
from emplace.app.database.jobs import KINDS, JobRow, Outcome
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow, now
from emplace.app.database.workers import WorkerObserver
from emplace.app.jobs.causes import CAUSES, cause_of

_LAG = timedelta(seconds=5)
"""An outcome is stored a moment after the time that it bears."""
_FRESH_S = 1.0
"""Who asks within so long of another is told the same."""
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_SHARES = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Metrics:
    """Those of one API process. Counts of jobs begin with it, whichever worker did them."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self.requests = Histogram("emplace_request_seconds", "Time to answer requests.", labels, registry=registry)
        self._resources = Gauge("emplace_resources", "Stored resources by kind and state.", ["kind", "state"], registry=registry)
        self._workers = Gauge("emplace_workers", "Workers that are alive.", registry=registry)
        self._depth = Gauge("emplace_queue_depth", "Jobs that wait for a worker.", ["kind"], registry=registry)
        self._age = Gauge("emplace_queue_age_seconds", "How long the oldest of them has waited.", ["kind"], registry=registry)
        self._work = Histogram("emplace_job_seconds", "From being taken up to its end.", ["kind"], buckets=_SECONDS, registry=registry)
        self._gap = Histogram("emplace_plan_gap", "Gap of plans, as a share of their step time.", buckets=_SHARES, registry=registry)
        self._error = Histogram(
            "emplace_prediction_error", "How far predicted step times are off measured ones.", buckets=_SHARES, registry=registry
        )
        self._failures = Counter("emplace_job_failures", "Jobs that failed, by cause.", ["kind", "cause"], registry=registry)
        for kind, cause in product(KINDS, CAUSES):  # there from the start: a first failure is a rise
            self._failures.labels(kind.__tablename__, cause)
        self._seen = now() - _LAG
        self._looked_at = -math.inf
        self._texts: dict[str, bytes] = {}

    def text(self, session: Session, workers: WorkerObserver, accept: str) -> tuple[bytes, str]:
        """All of them, up to date but for the last second, and the media type of the text that suits `accept`.

        For one thread at a time.
        """
        encode, media_type = choose_encoder(accept)
        if time.monotonic() - self._looked_at >= _FRESH_S:
            self._look(session, workers)
            self._texts.clear()
        if media_type not in self._texts:
            self._texts[media_type] = encode(self.registry)
        return self._texts[media_type], media_type

    def _look(self, session: Session, workers: WorkerObserver) -> None:
        until = now() - _LAG
        self._workers.set(len(workers.alive(session)))
        for kind in KINDS:
            self._count(session, kind)
        ended = [(kind.__tablename__, outcome) for kind in KINDS for outcome in jobs.ended_between(session, kind, self._seen, until)]
        errors = self._prediction_errors(session, until)
        self._seen = until  # all has been read: had that failed, nothing would have been observed, to be observed again
        for name, outcome in ended:
            self._observe(name, outcome)
        for error in errors:
            self._error.observe(error)
        self._looked_at = time.monotonic()

    def _count(self, session: Session, kind: type[JobRow]) -> None:
        name = kind.__tablename__
        counts: dict[str, int] = {row[0]: row[1] for row in session.execute(select(kind.state, func.count()).group_by(kind.state))}
        for state in State:
            self._resources.labels(name, state).set(counts.get(state, 0))
        self._depth.labels(name).set(counts.get(State.QUEUED, 0))
        oldest_at = jobs.oldest_queued_at(session, kind)
        self._age.labels(name).set((now() - oldest_at).total_seconds() if oldest_at is not None else 0)

    def _observe(self, kind: str, outcome: Outcome) -> None:
        if outcome.started_at is not None and outcome.finished_at is not None:
            self._work.labels(kind).observe((outcome.finished_at - outcome.started_at).total_seconds())
        if outcome.state == State.FAILED:
            self._failures.labels(kind, cause_of(outcome.error or "")).inc()
        if outcome.gap is not None:
            self._gap.observe(outcome.gap)

    def _prediction_errors(self, session: Session, until: datetime) -> list[float]:
        """How far the prediction of each run was off that ended since, as a share of what was measured."""
        measured = RunRow.emulate.is_(False), RunRow.finished_at > self._seen, RunRow.finished_at <= until
        query = select(RunRow.step_time_us, PlanRow.step_time_us).join(PlanRow, PlanRow.id == RunRow.plan_id).where(*measured)
        steps = [(measured_us, predicted_us) for measured_us, predicted_us in session.execute(query) if measured_us and predicted_us]
        return [abs(predicted_us - measured_us) / measured_us for measured_us, predicted_us in steps]


class TimedRequests:
    """ASGI middleware: the time until a request is answered, by its route. A stream of events is no request of this kind."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._requests = app, metrics.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.monotonic(), 500

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            if scope["type"] == "http" and not route.endswith("/events"):
                self._requests.labels(scope["method"], route, status).observe(time.monotonic() - started)
