"""The three kinds of job. Each is safe to repeat: it starts from its row, and stores its outcome only if the row still waits for one."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import DBAPIError

from emplace.app.database import jobs, plans, profiles, runs
from emplace.app.database.connection import Database
from emplace.app.database.jobs import JobRow
from emplace.app.database.tables import PlanRow, ProfileRow, RunRow, State
from emplace.app.jobs.child import ChildFailed, ChildStopped, run_child
from emplace.app.settings import Settings
from emplace.placement.cost_model import CostModel
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan
from emplace.placement.reading import read_text

_log = logging.getLogger(__name__)

_STATE_POLL_SECONDS = 0.5
_MIN_REPORT_SECONDS, _REPORT_SHARE = 0.25, 0.01
_CLEAN_UP_SECONDS = 60.0


class Worker:
    """Does the jobs of one worker process, one at a time so that nothing disturbs what is measured, each in a child process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()

    def stop(self, timeout_s: float) -> bool:
        """End the child of the job in hand, for another worker to repeat the job. Says whether it ended in time."""
        self._stopping.set()
        return self._one_at_a_time.acquire(timeout=timeout_s)

    def solve(self, plan_id: str) -> None:
        """Answer the question of a plan."""
        self._do(PlanRow, plan_id, self._solve)

    def run(self, run_id: str) -> None:
        """Execute a plan on this host."""
        self._do(RunRow, run_id, self._run)

    def profile(self, profile_id: str) -> None:
        """Measure this host."""
        self._do(ProfileRow, profile_id, self._profile)

    def _solve(self, plan_id: str) -> dict[str, Any] | None:
        with self._database.writing() as session:
            row = jobs.take_up(session, PlanRow, plan_id)
            if row is None:
                return None
            question = row.question
        text = self._child("solve", PlanRow, plan_id, question)
        return {"document": text, **plans.columns_of(read_text(text, Plan, source="plan", as_json=True))}

    def _run(self, run_id: str) -> dict[str, Any] | None:
        timeout_s = self._settings.run_timeout_seconds
        with self._database.writing() as session:
            row = jobs.take_up(session, RunRow, run_id)
            if row is None:
                return None
            plan = session.get_one(PlanRow, row.plan_id)
            document = json.loads(plan.document or "null")
            request = {"plan": document, "steps": row.steps, "seed": row.seed, "emulate": row.emulate, "timeout_s": timeout_s}
        text = self._child("run", RunRow, run_id, json.dumps(request), timeout_s + _CLEAN_UP_SECONDS)
        return {"document": text, **runs.columns_of(read_text(text, Measurement, source="measurement", as_json=True))}

    def _profile(self, profile_id: str) -> dict[str, Any] | None:
        with self._database.writing() as session:
            row = jobs.take_up(session, ProfileRow, profile_id)
            if row is None:
                return None
            request = {"ranks": row.ranks, "quick": row.quick, "seed": row.seed}
        text = self._child("profile", ProfileRow, profile_id, json.dumps(request), self._settings.run_timeout_seconds)
        return {"document": text, **profiles.columns_of(read_text(text, CostModel, source="cost model", as_json=True))}

    def _do(self, kind: type[JobRow], resource_id: str, work: Callable[[str], dict[str, Any] | None]) -> None:
        """Store what `work` returns; None means there was nothing to do. Lets database errors through: the job is then tried again."""
        with self._one_at_a_time:
            try:
                outcome = None if self._stopping.is_set() else work(resource_id)
            except ChildStopped:
                outcome = None
                if self._stopping.is_set():
                    with self._database.writing() as session:
                        jobs.give_back(session, kind, resource_id)
            except ChildFailed as failure:
                outcome = {"state": State.FAILED, "error": failure.message}
            except DBAPIError:
                raise
            except Exception as error:
                _log.exception("job %s", resource_id)
                outcome = {"state": State.FAILED, "error": f"internal error: {type(error).__name__}: {error}"}
            if outcome is not None:
                with self._database.writing() as session:
                    jobs.finish(session, kind, resource_id, **outcome)
        if self._stopping.is_set():
            # This process ends in a moment. Returning would record the job as finished; as it is, another worker repeats it.
            threading.Event().wait()

    def _child(self, step: str, kind: type[JobRow], resource_id: str, document: str, timeout_s: float | None = None) -> str:
        started = time.monotonic()
        reported = checked = started - 1e9

        def on_progress(data: dict[str, Any]) -> None:
            """Store progress, ever more rarely: a long job leaves hundreds of events, not millions."""
            nonlocal reported
            at = time.monotonic()
            if at - reported >= max(_MIN_REPORT_SECONDS, _REPORT_SHARE * (at - started)):
                reported = at
                with self._database.writing() as session:
                    jobs.add_event(session, resource_id, data)

        def should_stop() -> bool:
            nonlocal checked
            if self._stopping.is_set():
                return True
            if time.monotonic() - checked < _STATE_POLL_SECONDS:
                return False
            checked = time.monotonic()
            with self._database.reading() as session:
                return not jobs.is_running(session, kind, resource_id)

        return run_child(step, document, on_progress, should_stop, timeout_s)
