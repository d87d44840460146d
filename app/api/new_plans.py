"""Plans that are asked for at the same time: what is new is stored in one go, and each has an answer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from emplace.app.api.queueing import most_waiting, no_room
from emplace.app.database import jobs, plans
from emplace.app.database.priorities import Priority
from emplace.app.database.tables import PlanRow
from emplace.app.reports.options_text import options_line
from emplace.app.traces import carried
from emplace.app.web.service import Service
from emplace.placement.plan import Question


@dataclass(frozen=True)
class AskedPlan:
    """A plan that is asked for: the columns of its row, should it be new, and the trace of the request."""

    columns: dict[str, Any]
    priority: Priority
    trace: dict[str, str]

    @property
    def digest(self) -> str:
        return str(self.columns["question_digest"])

    def is_in(self, row: PlanRow) -> bool:
        """Whether the row was stored for this request, not for an equal one."""
        return bool(row.id == self.columns["id"])


class Answer(NamedTuple):
    """The plan of a question. One that is new waits for a worker."""

    row: PlanRow
    is_new: bool


def asked_plan(question: Question, priority: Priority) -> AskedPlan:
    return AskedPlan(plans.new_columns(question, options_line(question.options), priority), priority, carried())


def find_or_store(session: Session, service: Service, asked: Sequence[AskedPlan]) -> list[Answer | Exception]:
    """The plan of each, or why there is none: it would be new, and as many wait already as may. Of equal questions one is stored."""
    while True:
        found = plans.find_answers(session, sorted({each.digest for each in asked}))
        first = {each.digest: each for each in reversed(asked)}
        new = [each for each in asked if each.digest not in found and first[each.digest] is each]
        waiting = jobs.count_queued(session, PlanRow) if new else 0
        stored = new[: max(0, most_waiting(service.settings, PlanRow) - waiting)]
        try:
            rows = found | _store(session, service, stored)
        except IntegrityError:
            continue  # another process was faster with an equal one
        _hasten(session, service, rows, asked)
        refusal = no_room(waiting + len(stored), PlanRow)
        return [Answer(row, each.is_in(row)) if (row := rows.get(each.digest)) else refusal for each in asked]


def find_or_store_one(session: Session, service: Service, asked: AskedPlan) -> Answer:
    """`find_or_store` of one. Raises Refused where the queue is full."""
    [answer] = find_or_store(session, service, [asked])
    if isinstance(answer, Exception):
        raise answer
    return answer


def _store(session: Session, service: Service, new: Sequence[AskedPlan]) -> dict[str, PlanRow]:
    """Their rows, by their digests, stored in this order and queued. Raises IntegrityError, after which none of them is."""
    rows = {each.digest: PlanRow(**each.columns) for each in new}
    if new:
        with session.begin_nested():
            session.add_all(rows[digest] for digest in sorted(rows))  # in one order everywhere: nobody waits for each other
            service.queue.put_all(session, [(rows[each.digest], each.trace) for each in new])
    return rows


def _hasten(session: Session, service: Service, rows: dict[str, PlanRow], asked: Sequence[AskedPlan]) -> None:
    """Bring those forward that are asked for more urgently than before."""
    for each in sorted(asked, key=lambda each: each.digest):
        row = rows.get(each.digest)
        if row is not None and plans.hasten(session, row, each.priority):
            service.queue.put(session, row)
