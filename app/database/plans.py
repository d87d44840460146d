"""Stored plans: one per question, found by what lists filter by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, undefer

from emplace.app.database import jobs
from emplace.app.database.canonical_parts import canonical_parts
from emplace.app.database.jobs import Ticket
from emplace.app.database.plan_facts import facts_row
from emplace.app.database.priorities import Priority
from emplace.app.database.states import State
from emplace.app.database.tables import IS_LIVE, IdempotencyRow, PipelineRow, PlanRow, RunRow, new_id
from emplace.placement.document import canonical_of_parts, digest_of
from emplace.placement.memory_use import fullest_memory
from emplace.placement.plan import Plan, Question

_ASKED_AT_ONCE = 5
"""With more digests in one condition SQLite takes its index of states, and reads every plan there is."""


def columns_of(plan: Plan) -> dict[str, Any]:
    """What a finished plan's row says about it."""
    fullest = fullest_memory(plan)
    return {
        "status": plan.status,
        "gap": plan.gap,
        "step_time_us": plan.step_time_us,
        "throughput_samples_per_s": plan.throughput_samples_per_s,
        "imbalance": plan.imbalance,
        "trainers": plan.num_trainers or None,
        "facts": facts_row(plan),
        "memory_bytes": None if fullest is None else fullest.used_bytes,
        "memory_share": None if fullest is None else fullest.share,
    }


def find_answer(session: Session, question_digest: str) -> PlanRow | None:
    """The plan, or the search for it, of an equal question."""
    return session.scalar(select(PlanRow).where(PlanRow.question_digest == question_digest, IS_LIVE))


def find_answers(session: Session, question_digests: Sequence[str]) -> dict[str, PlanRow]:
    """The same for many questions at once, by their digests."""
    found: dict[str, PlanRow] = {}
    for start in range(0, len(question_digests), _ASKED_AT_ONCE):
        some = PlanRow.question_digest.in_(question_digests[start : start + _ASKED_AT_ONCE])
        found |= {row.question_digest: row for row in session.scalars(select(PlanRow).where(some, IS_LIVE))}
    return found


def new_columns(question: Question, options_shown: str, priority: Priority = Priority.NORMAL) -> dict[str, Any]:
    """What a new row says of a question, with its options as lists show them. Its id sorts by now."""
    parts = canonical_parts(question)
    asked = canonical_of_parts(parts)
    return {
        "id": new_id(),
        "question_digest": digest_of(asked),
        "model_name": question.model.name,
        "model_digest": digest_of(parts["model"]),
        "host_name": question.host.name,
        "host_digest": digest_of(parts["host"]),
        "host_fingerprint": question.host.fingerprint,
        "cost_source": question.cost_model.source,
        "options": options_shown,
        "priority": priority.rank,
        "question": asked,
        "document": None,  # said, so that nobody loads it to find out
    }


def create(session: Session, question: Question, options_shown: str, priority: Priority = Priority.NORMAL) -> tuple[PlanRow, bool]:
    """The row of this question, with its options as lists show them, and whether it is new.

    Of equal questions asked at once, one wins, and all get its row.
    """
    columns = new_columns(question, options_shown, priority)
    while (row := find_answer(session, columns["question_digest"])) is None:
        row = PlanRow(**columns)
        try:
            with session.begin_nested():
                session.add(row)
        except IntegrityError:
            continue
        return row, True
    return row, False


def hasten(session: Session, row: PlanRow, priority: Priority) -> bool:
    """Make a plan that waits as urgent as the most urgent of those who ask for it. Says whether it is now to be queued anew."""
    if row.priority <= priority.rank:  # it never becomes less urgent
        return False
    locked = jobs.locked(session, PlanRow, row.id)
    if locked is None or locked.state != State.QUEUED or locked.priority <= priority.rank:
        return False
    locked.priority = priority.rank
    return True


def find(session: Session, plan_id: str, *, with_document: bool = False) -> PlanRow | None:
    options = [undefer(PlanRow.document)] if with_document else []
    return session.get(PlanRow, plan_id, options=options)


def remove(session: Session, plan_id: str) -> list[Ticket]:
    """Delete a plan with its runs and the pipelines that asked for it. Returns the newest tickets of what was there."""
    jobs.locked(session, PlanRow, plan_id)  # whoever asks for a run of it has stored that, or finds no plan
    asked = select(PipelineRow.id).where(PipelineRow.plan_id == plan_id)
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.resource_id.in_(asked)))
    session.execute(delete(PipelineRow).where(PipelineRow.plan_id == plan_id))
    run_ids = session.scalars(select(RunRow.id).where(RunRow.plan_id == plan_id)).all()
    return [ticket for run_id in run_ids for ticket in jobs.remove(session, RunRow, run_id)] + jobs.remove(session, PlanRow, plan_id)
