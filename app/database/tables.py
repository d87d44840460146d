"""The tables. A row is a resource (id, state, times, what lists filter by); documents are stored as their JSON text."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

from sqlalchemy import BigInteger, DateTime, Dialect, Float, ForeignKey, Index, Integer, String, Text, TypeDecorator, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from emplace.app.database.priorities import Priority
from emplace.app.database.states import State


def now() -> datetime:
    return datetime.now(UTC)


def new_id() -> str:
    """32 hex digits that sort by creation: 48 bits of milliseconds, 80 random bits."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


class UtcTime(TypeDecorator[datetime]):
    """A time in UTC: SQLite drops its zone, and PostgreSQL answers in that of the session."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    pass


class JobColumns:
    """What every resource that a worker makes has. `attempts` counts the workers that took it up, `ticket` how often it was queued."""

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    state: Mapped[str] = mapped_column(String(16), default=State.QUEUED, index=True)
    ticket: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=now)
    started_at: Mapped[datetime | None] = mapped_column(UtcTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcTime)
    error: Mapped[str | None] = mapped_column(Text)


PLANS_ARE_SORTED_BY = (
    "model_name",
    "host_name",
    "status",
    "gap",
    "step_time_us",
    "throughput_samples_per_s",
    "cost_source",
    "imbalance",
    "memory_share",
)
"""Columns of plans that have an index, beside `id`, the order in which they were asked for."""


IS_LIVE = text("state IN ('queued', 'running', 'done')")
"""The plans that answer a question, or are about to. Said in literals: a condition with parameters keeps databases from its index."""


class PlanRow(JobColumns, Base):
    """A question and, once done, its plan."""

    __tablename__ = "plans"

    question_digest: Mapped[str] = mapped_column(String(80))
    model_name: Mapped[str] = mapped_column(String(200), index=True)
    model_digest: Mapped[str] = mapped_column(String(80))
    host_name: Mapped[str] = mapped_column(String(200), index=True)
    host_digest: Mapped[str] = mapped_column(String(80))
    host_fingerprint: Mapped[str | None] = mapped_column(String(200))
    cost_source: Mapped[str] = mapped_column(String(16))
    options: Mapped[str] = mapped_column(Text, default="")
    """The options that are set, in one line for people."""
    priority: Mapped[int] = mapped_column(Integer, default=Priority.NORMAL.rank, server_default=str(Priority.NORMAL.rank))
    status: Mapped[str | None] = mapped_column(String(16), index=True)
    gap: Mapped[float | None] = mapped_column(Float)
    step_time_us: Mapped[float | None] = mapped_column(Float)
    throughput_samples_per_s: Mapped[float | None] = mapped_column(Float)
    imbalance: Mapped[float | None] = mapped_column(Float)
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """What the fullest memory holds, a rank's device memory or a node's system memory, and its share of what there is room for."""
    memory_share: Mapped[float | None] = mapped_column(Float)
    trainers: Mapped[int | None] = mapped_column(Integer)
    question: Mapped[str] = mapped_column(Text, deferred=True)
    document: Mapped[str | None] = mapped_column(Text, deferred=True)
    facts: Mapped[PlanFactsRow | None] = relationship(passive_deletes=True)
    """Stored with the plan."""

    __table_args__ = (
        *(Index(f"ix_plans_by_{name}", name, "id") for name in PLANS_ARE_SORTED_BY),
        *(Index(f"ix_plans_of_{part}", f"{part}_digest", f"{part}_name") for part in ("model", "host")),
        Index("ix_plans_waiting", "state", "priority", "id"),
        # One answer, or one search for it, per question.
        Index(
            "plans_one_per_question",
            "question_digest",
            unique=True,
            sqlite_where=IS_LIVE,
            postgresql_where=IS_LIVE,
        ),
    )


class PlanFactsRow(Base):
    """What an overview counts of a plan with a placement, in JSON. In a table of its own: a row of plans is as large as its documents."""

    __tablename__ = "plan_facts"

    plan_id: Mapped[str] = mapped_column(ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True)
    model_digest: Mapped[str] = mapped_column(String(80))
    """Plans of one model have the same tables."""
    job: Mapped[str] = mapped_column(Text)
    tables: Mapped[str] = mapped_column(Text)

    __table_args__ = (Index("ix_plan_facts_of_model", "model_digest", "plan_id"),)


class RunRow(JobColumns, Base):
    """One execution of a plan on a worker's host, and its measurement."""

    __tablename__ = "runs"

    plan_id: Mapped[str] = mapped_column(ForeignKey("plans.id", ondelete="CASCADE"), index=True)
    host_fingerprint: Mapped[str] = mapped_column(String(200))
    steps: Mapped[int | None] = mapped_column(Integer)
    """As asked for; None for as many as take three seconds."""
    seed: Mapped[int] = mapped_column(Integer)
    emulate: Mapped[bool] = mapped_column(default=False)
    verified: Mapped[bool | None]
    step_time_us: Mapped[float | None] = mapped_column(Float)
    throughput_samples_per_s: Mapped[float | None] = mapped_column(Float)
    document: Mapped[str | None] = mapped_column(Text, deferred=True)

    __table_args__ = (Index("ix_runs_measured", "state", "emulate", "plan_id", "id", "step_time_us"),)


class ProfileRow(JobColumns, Base):
    """A cost model, uploaded or measured on a worker's host."""

    __tablename__ = "profiles"

    host_name: Mapped[str] = mapped_column(String(200))
    host_fingerprint: Mapped[str | None] = mapped_column(String(200), index=True)
    source: Mapped[str] = mapped_column(String(16))
    ranks: Mapped[int | None] = mapped_column(Integer)
    quick: Mapped[bool | None]
    seed: Mapped[int | None] = mapped_column(Integer)
    digest: Mapped[str | None] = mapped_column(String(80), index=True)
    document: Mapped[str | None] = mapped_column(Text, deferred=True)


class PipelineRow(Base):
    """A plan with what comes before and after it: `profile` and `run` say how, in JSON, where they were asked for.

    Its state is that of its jobs; `error` says why the plan could not even be asked for."""

    __tablename__ = "pipelines"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=now)
    question: Mapped[str] = mapped_column(Text)
    profile: Mapped[str | None] = mapped_column(Text)
    run: Mapped[str | None] = mapped_column(Text)
    host_fingerprint: Mapped[str | None] = mapped_column(String(200))
    error: Mapped[str | None] = mapped_column(Text)
    profile_id: Mapped[str | None] = mapped_column(String(32), index=True)
    plan_id: Mapped[str | None] = mapped_column(String(32), index=True)
    run_id: Mapped[str | None] = mapped_column(String(32), index=True)


class StudyRow(JobColumns, Base):
    """Many questions that are asked together. `hosts` and `varied` are lists of texts, in JSON."""

    __tablename__ = "studies"

    kind: Mapped[str] = mapped_column(String(16))
    model_name: Mapped[str] = mapped_column(String(200))
    hosts: Mapped[str] = mapped_column(Text)
    varied: Mapped[str] = mapped_column(Text)
    points: Mapped[int] = mapped_column(Integer)
    points_done: Mapped[int] = mapped_column(Integer, default=0)
    asked: Mapped[str] = mapped_column(Text, deferred=True)
    before: Mapped[str | None] = mapped_column(Text, deferred=True)
    """The plan that the next point begins with."""
    document: Mapped[str | None] = mapped_column(Text, deferred=True)


class StudyPointRow(Base):
    """What a point came to, while its study is at work: whoever goes on with it begins after the last one."""

    __tablename__ = "study_points"

    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    document: Mapped[str] = mapped_column(Text)


class EventRow(Base):
    """One line of progress of a plan, run, profile or study."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    resource_id: Mapped[str] = mapped_column(String(32), index=True)
    at: Mapped[datetime] = mapped_column(UtcTime, default=now)
    data: Mapped[str] = mapped_column(Text)


class IdempotencyRow(Base):
    """Which resource a request with this Idempotency-Key made."""

    __tablename__ = "idempotency_keys"

    key: Mapped[str] = mapped_column(String(300), primary_key=True)
    request_digest: Mapped[str] = mapped_column(String(80))
    resource_id: Mapped[str] = mapped_column(String(32), index=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=now)


class WorkerRow(Base):
    """A live worker. `beat` grows while it lives; a worker that sees it stand still for a lease removes the row."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(200), primary_key=True)
    machine: Mapped[str] = mapped_column(String(200))
    pid: Mapped[int] = mapped_column(Integer)
    host: Mapped[str] = mapped_column(Text)
    host_fingerprint: Mapped[str | None] = mapped_column(String(200), index=True)
    beat: Mapped[int] = mapped_column(Integer, default=0)
    started_at: Mapped[datetime] = mapped_column(UtcTime, default=now)
    seen_at: Mapped[datetime] = mapped_column(UtcTime, default=now)


class ApiKeyRow(Base):
    """A key that was made. Only its digest is kept: nobody can read a key out of the database."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    scope: Mapped[str] = mapped_column(String(16))
    digest: Mapped[str] = mapped_column(String(80), unique=True, index=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=now)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcTime)
