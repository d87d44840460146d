"""Stored runs of plans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, undefer

from emplace.app.database.states import State
from emplace.app.database.tables import RunRow
from emplace.placement.measurement import Measurement


def columns_of(measurement: Measurement) -> dict[str, Any]:
    """What a finished run's row says about it."""
    return {
        "verified": measurement.verified,
        "step_time_us": measurement.step_time_us,
        "throughput_samples_per_s": measurement.throughput_samples_per_s,
    }


def find(session: Session, run_id: str) -> RunRow | None:
    return session.get(RunRow, run_id, options=[undefer(RunRow.document)])


def latest_done(session: Session, plan_ids: Iterable[str]) -> dict[str, RunRow]:
    """The newest finished run of each plan that has one. An emulated run measures nothing and doesn't count."""
    done = RunRow.plan_id.in_(list(plan_ids)), RunRow.state == State.DONE, RunRow.emulate.is_(False)
    newest = select(func.max(RunRow.id)).where(*done).group_by(RunRow.plan_id)
    return {row.plan_id: row for row in session.scalars(select(RunRow).where(RunRow.id.in_(newest)))}
