"""What a worker does with the jobs that it takes.

A job is safe to repeat: it starts from its row, and its outcome is stored only while its ticket counts.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from emplace.app.database import jobs, plans, profiles, runs, studies
from emplace.app.database.connection import NO_ANSWER, Database
from emplace.app.database.jobs import JobRow, Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, ProfileRow, RunRow, StudyRow
from emplace.app.jobs import pipelines
from emplace.app.jobs.child import run_child
from emplace.app.jobs.child_errors import ChildFailed, ChildLost, ChildStopped
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.warm import WarmProcess
from emplace.app.logs import about
from emplace.app.settings import Settings
from emplace.app.traces import say_outcome
from emplace.placement.cost_model import CostModel
from emplace.placement.document import Document
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan
from emplace.placement.reading import read_text
from emplace.studies.asked import ANSWERS

_log = logging.getLogger(__name__)

_STATE_POLL_SECONDS = 0.5
_MIN_REPORT_SECONDS, _REPORT_SHARE = 0.25, 0.01
_CLEAN_UP_SECONDS = 60.0
_NICENESS, _BESIDE_A_RUN = 5, 10
"""The niceness of a plan's child, which gives way to the API, and beside a run: about a tenth of a core that a run uses too, all of one
that is free."""


@dataclass(frozen=True)
class Work:
    """A job as the child process app.steps.<step> does it: a document in, a document of the kind `result` out."""

    step: str
    document: str
    result: type[Document]
    columns_of: Callable[[Any], dict[str, Any]]
    """What the row says about the result."""
    timeout_s: float | None = None


class Worker:
    """Does the jobs of one worker process, each in a child process: several plans, one study and one measurement at a time.

    So a plan doesn't wait behind a run, nor behind a study. Plans and studies are solved by forks of one warm process. One that
    begins while a run is at work gives way to it, and a study to everything: its child has a low priority. A profile prices all later
    plans, so nothing runs beside it; a study that is at work stops for it and goes on afterwards.
    """

    def __init__(self, database: Database, queue: JobQueue, settings: Settings, warm: WarmProcess) -> None:
        self._database = database
        self._queue = queue
        self._settings = settings
        self._warm = warm
        self._planning = threading.Semaphore(settings.plans_at_once)
        self._measuring, self._studying = threading.Lock(), threading.Lock()
        self._stopping = threading.Event()
        self.in_hand: set[Ticket] = set()
        """What this worker is at, and what it has taken and waits to begin."""
        self.met_dead_messages = False
        """Whether there was nothing to do any more for a message."""

    def stop(self) -> None:
        """End the child of the job in hand, and give back that job and all that follow."""
        self._stopping.set()

    def do(self, ticket: Ticket) -> None:
        """Do a job and store its outcome. Lets an error through of a database that fails; the job is then put back as a lost one."""
        self.in_hand.add(ticket)
        try:
            with about(f"job {ticket.resource_id}"), ExitStack() as held:
                for slot in self._slots(ticket.kind):
                    held.enter_context(slot)
                if self._stopping.is_set():
                    self._put_back(ticket, jobs.give_back)
                else:
                    self._work_on(ticket)
        finally:
            self.in_hand.discard(ticket)

    def _slots(self, kind: type[JobRow]) -> tuple[threading.Semaphore | threading.Lock, ...]:
        """What a job of this kind has to itself, in the order in which it is taken."""
        if kind is ProfileRow:
            return self._measuring, self._studying, *[self._planning] * self._settings.plans_at_once
        if kind is StudyRow:
            return (self._studying,)
        return (self._planning if kind is PlanRow else self._measuring,)

    def _work_on(self, ticket: Ticket) -> None:
        with self._database.writing() as session:
            row = jobs.take_up(session, ticket)
            if row is None:
                self.met_dead_messages = True
                return
            work = _work_of(session, row, self._settings)
        try:
            text = self._child(ticket, work)
            result = read_text(text, work.result, source=f"result of {work.step}", as_json=True)
            self._finish(ticket, State.DONE, document=text, **work.columns_of(result))
        except ChildStopped:
            if self._must_stop(ticket):
                self._put_back(ticket, jobs.give_back)
        except NO_ANSWER:
            raise
        except ChildLost:
            self._put_back(ticket, jobs.recover)
        except ChildFailed as failure:
            self._finish(ticket, State.FAILED, error=failure.message)
        except Exception as error:
            _log.exception("job %s", ticket.resource_id)
            self._finish(ticket, State.FAILED, error=f"internal error: {type(error).__name__}: {_words_of(error)}")

    def _must_stop(self, ticket: Ticket) -> bool:
        """Whether the job is to be given back: the worker ends, or a study is in the way of a profile."""
        return self._stopping.is_set() or (ticket.kind is StudyRow and any(each.kind is ProfileRow for each in tuple(self.in_hand)))

    def _finish(self, ticket: Ticket, to: State, **values: Any) -> None:
        with self._database.writing() as session:
            finished = jobs.finish(session, ticket, to, **values)
            if finished and to is State.DONE:
                pipelines.advance(session, partial(self._put, session), ticket.kind, ticket.resource_id)
                if ticket.kind is StudyRow:
                    studies.drop_points(session, ticket.resource_id)
        if finished:
            say_outcome(to, values.get("error"))

    def _put(self, session: Session, row: JobRow) -> None:
        session.add(row)
        session.flush()
        self._queue.put(session, row)

    def _put_back(self, ticket: Ticket, change: Callable[[Session, Ticket], JobRow | None]) -> None:
        with self._database.writing() as session:
            row = change(session, ticket)
            if row is not None:
                self._queue.put(session, row)

    def _child(self, ticket: Ticket, work: Work) -> str:
        """The child's result. Raises ChildStopped when this worker stops or the job is this ticket's no more, ChildFailed."""
        started = time.monotonic()
        reported = checked = started - 1e9

        def on_progress(data: dict[str, Any]) -> None:
            """Store progress, ever more rarely: a long job leaves hundreds of events, not millions."""
            nonlocal reported
            at = time.monotonic()
            if at - reported >= max(_MIN_REPORT_SECONDS, _REPORT_SHARE * (at - started)):
                reported = at
                with self._database.writing() as session:
                    jobs.add_event(session, ticket.resource_id, data)

        def should_stop() -> bool:
            nonlocal checked
            if self._must_stop(ticket):
                return True
            if time.monotonic() - checked < _STATE_POLL_SECONDS:
                return False
            checked = time.monotonic()
            with self._database.reading() as session:
                return not jobs.is_running(session, ticket)

        solves = ticket.kind in (PlanRow, StudyRow)
        gives_way = self._measuring.locked() or ticket.kind is StudyRow
        niceness = (_BESIDE_A_RUN if gives_way else _NICENESS) if solves else 0
        on_report = partial(self._keep_point, ticket) if ticket.kind is StudyRow else on_progress
        return run_child(work.step, work.document, on_report, should_stop, work.timeout_s, niceness, self._warm if solves else None)

    def _keep_point(self, ticket: Ticket, data: dict[str, Any]) -> None:
        """Store a point of a study. Raises ChildStopped where the study is not this ticket's any more."""
        with self._database.writing() as session:
            if not studies.keep_point(session, ticket, data["number"], data["point"], data["before"]):
                raise ChildStopped


def _words_of(error: Exception) -> object:
    """What a database said, without the statement and its values."""
    return error.orig if isinstance(error, DBAPIError) else error


def _work_of(session: Session, row: JobRow, settings: Settings) -> Work:
    limit_s = settings.run_timeout_seconds
    match row:
        case PlanRow():
            return Work("solve", row.question, Plan, plans.columns_of)
        case RunRow():
            plan = json.loads(session.get_one(PlanRow, row.plan_id).document or "null")
            request = {"plan": plan, "steps": row.steps, "seed": row.seed, "emulate": row.emulate, "timeout_s": limit_s}
            return Work("run", json.dumps(request), Measurement, runs.columns_of, limit_s + _CLEAN_UP_SECONDS)
        case ProfileRow():
            request = {"ranks": row.ranks, "quick": row.quick, "seed": row.seed}
            return Work("profile", json.dumps(request), CostModel, profiles.columns_of, limit_s)
        case StudyRow():
            points = ", ".join(studies.points_of(session, row.id))
            request_text = f'{{"asked": {row.asked}, "points": [{points}], "before": {row.before or "null"}}}'
            return Work("study", request_text, ANSWERS[row.kind], studies.columns_of)
