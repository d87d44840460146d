"""The list of plans as people look through it: searched, filtered, sorted by any column, a page at a time.

Ids are sorted by an index that holds nothing else, and rows are read for one page: a row is as large as its documents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow
from emplace.placement.plan import PlanStatus


class PlanColumn(StrEnum):
    """What a list of plans can be sorted by."""

    MODEL = "model"
    HOST = "host"
    STATUS = "status"
    GAP = "gap"
    STEP = "step"
    MEASURED = "measured"
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    IMBALANCE = "imbalance"
    COSTS = "costs"
    ASKED = "asked"


_COLUMNS: dict[PlanColumn, Any] = {
    PlanColumn.MODEL: PlanRow.model_name,
    PlanColumn.HOST: PlanRow.host_name,
    PlanColumn.STATUS: PlanRow.status,
    PlanColumn.GAP: PlanRow.gap,
    PlanColumn.STEP: PlanRow.step_time_us,
    PlanColumn.THROUGHPUT: PlanRow.throughput_samples_per_s,
    PlanColumn.MEMORY: PlanRow.memory_share,
    PlanColumn.IMBALANCE: PlanRow.imbalance,
    PlanColumn.COSTS: PlanRow.cost_source,
}


@dataclass(frozen=True)
class WantedPlans:
    """`status` is an answer, or the state of a plan without one; an empty text asks for nothing."""

    search: str = ""
    model: str = ""
    host: str = ""
    status: str = ""
    sort: PlanColumn = PlanColumn.ASKED
    descending: bool = True
    page: int = 1
    rows: int = field(default=25, repr=False)


@dataclass(frozen=True)
class FoundPlans:
    """A page of plans, in order, and how many there are on all pages."""

    plans: list[PlanRow]
    total: int


def find_plans(session: Session, wanted: WantedPlans) -> FoundPlans:
    conditions = _conditions(wanted)
    total = session.scalars(select(func.count()).select_from(PlanRow).where(*conditions)).one()
    query = _sorted(select(PlanRow.id), wanted).where(*conditions)
    ids = list(session.scalars(query.limit(wanted.rows).offset((wanted.page - 1) * wanted.rows)))
    rows = {row.id: row for row in session.scalars(select(PlanRow).where(PlanRow.id.in_(ids)))}
    return FoundPlans([rows[plan_id] for plan_id in ids if plan_id in rows], total)


def _conditions(wanted: WantedPlans) -> list[Any]:
    found: list[Any] = []
    if wanted.model:
        found.append(PlanRow.model_name == wanted.model)
    if wanted.host:
        found.append(PlanRow.host_name == wanted.host)
    if wanted.status in list(PlanStatus):
        found.append(PlanRow.status == wanted.status)
    elif wanted.status:
        found.append(PlanRow.state == wanted.status)
    for word in wanted.search.split():
        places = [place.icontains(word, autoescape=True) for place in (PlanRow.model_name, PlanRow.host_name, PlanRow.options)]
        found.append(or_(*places, PlanRow.id.istartswith(word, autoescape=True)))
    return found


def _sorted(query: Select[Any], wanted: WantedPlans) -> Select[Any]:
    """Plans without the figure come last in either order, and of equal ones the newest first."""
    if wanted.sort is PlanColumn.ASKED:
        return query.order_by(PlanRow.id.desc() if wanted.descending else PlanRow.id.asc())
    column = _newest_run_us() if wanted.sort is PlanColumn.MEASURED else _COLUMNS[wanted.sort]
    return query.order_by((column.desc() if wanted.descending else column.asc()).nulls_last(), PlanRow.id.desc())


def _newest_run_us() -> Any:
    """The step of the newest run that measured a plan: looked up for each plan in the index `ix_runs_measured`, without reading a row."""
    measured = RunRow.state == State.DONE, RunRow.emulate.is_(False), RunRow.plan_id == PlanRow.id
    return select(RunRow.step_time_us).where(*measured).order_by(RunRow.id.desc()).limit(1).scalar_subquery()
