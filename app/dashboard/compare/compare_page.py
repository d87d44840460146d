"""What changed from one plan to another: the question first, then the placement, then what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard.charts.mirror import Mirror, mirror
from emplace.app.dashboard.charts.stage_titles import STAGE_TITLES
from emplace.app.dashboard.loaded import find_row, loaded
from emplace.app.dashboard.plans.list_page import PlanLine, plan_line
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.stage_lengths import stage_lengths
from emplace.app.database import runs
from emplace.app.database.tables import PlanRow
from emplace.app.diff import Change, PlanDiff, TableChange, diff_plans
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import Refused
from emplace.placement.cost_model import CostSource
from emplace.placement.errors import BrokenRule
from emplace.placement.plan import Plan

router = APIRouter()

_MOST_TABLES = 200
_MOST_CHANGES = 100


@dataclass(frozen=True)
class StagePair:
    """Microseconds that a stage lasts in both."""

    key: str
    title: str
    before_us: float
    after_us: float


@dataclass(frozen=True)
class PlanComparison:
    """`warning` says why times of both should not be compared."""

    before: PlanLine
    after: PlanLine
    warning: str | None
    questions: tuple[Change, ...]
    more_questions: int
    diff: PlanDiff
    moved: tuple[TableChange, ...]
    more_moved: int
    stages: list[StagePair]
    mirrors: list[Mirror]
    swapped: str


@router.get("/compare")
async def compare_page(request: Request, service: TheService, plan: Annotated[list[str], Query(max_length=200)] = []) -> Response:  # noqa: B006
    """Two plans, the first as it was and the second as it became; of two that were ticked in a list, the older comes first."""
    if len(plan) != 2:
        rule = f"tick two plans to compare them, not {len(plan)}"
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, rule, [BrokenRule("/plan", "", rule)], "query")
    return show(request, "compare.html", await service.read(_page, plan[0], plan[1]))


def _page(session: Session, first: str, second: str) -> PlanComparison:
    rows = [find_row(session, plan_id) for plan_id in (first, second)]
    found = [loaded(row) for row in rows]
    missing = next((row for row, each in zip(rows, found, strict=True) if each is None), None)
    before, after = found
    if before is None or after is None:
        assert missing is not None
        raise Refused(
            HTTPStatus.CONFLICT, f"the plan of {missing.model_name} on {missing.host_name} is {missing.state}: nothing to compare yet"
        )
    return _compared(session, rows, before.plan, after.plan)


def _compared(session: Session, rows: list[PlanRow], before: Plan, after: Plan) -> PlanComparison:
    diff = diff_plans(before, after)
    measured = runs.latest_done(session, [row.id for row in rows])
    lines = [plan_line(row, measured.get(row.id)) for row in rows]
    moved = tuple(sorted(diff.tables, key=lambda each: (-each.bytes_to_move, each.name)))
    return PlanComparison(
        before=lines[0],
        after=lines[1],
        warning=_warning(before, after),
        questions=diff.question[:_MOST_CHANGES],
        more_questions=max(0, len(diff.question) - _MOST_CHANGES),
        diff=diff.model_copy(update={"question": (), "tables": ()}),
        moved=moved[:_MOST_TABLES],
        more_moved=max(0, len(moved) - _MOST_TABLES),
        stages=_stages(before, after) if before.has_placement and after.has_placement else [],
        mirrors=list(_mirrors(before, after)) if before.has_placement and after.has_placement else [],
        swapped=f"/compare?plan={rows[1].id}&plan={rows[0].id}",
    )


def _warning(before: Plan, after: Plan) -> str | None:
    if before.host.digest != after.host.digest:
        return f"Different hosts: {before.host.name} and {after.host.name}. What differs below is not the placement's doing alone."
    if before.cost_model.digest != after.cost_model.digest:
        kinds = [("measured" if each.cost_model.source is CostSource.MEASURED else "datasheet") for each in (before, after)]
        return f"Different prices: {kinds[0]} and {kinds[1]}. Predicted times of both are not to be compared."
    return None


def _stages(before: Plan, after: Plan) -> list[StagePair]:
    old, new = stage_lengths(before), stage_lengths(after)
    return [StagePair(key.value, title, old[key], new[key]) for key, title in STAGE_TITLES.items() if old[key] or new[key]]


def _mirrors(before: Plan, after: Plan) -> list[Mirror]:
    sides = ("before", "after")
    ranks = max((before.ranks, after.ranks), key=len)
    labels = [f"server {rank.rank}" if rank.is_server else f"rank {rank.rank}" for rank in ranks]
    own = tuple([rank.step_time_us for rank in plan.ranks] for plan in (before, after))
    charts = [mirror("Own work of each rank", "time", sides, labels, (own[0], own[1]))]
    if any(rank.hbm_bytes for rank in ranks):
        hbm = tuple([float(rank.hbm_bytes) for rank in plan.ranks if not rank.is_server] for plan in (before, after))
        charts.append(mirror("Device memory of each rank", "bytes", sides, labels[: max(map(len, hbm))], (hbm[0], hbm[1])))
    nodes = tuple([float(node.ddr_bytes) for node in plan.nodes] for plan in (before, after))
    if any(map(any, nodes)):
        numbered = [f"node {number}" for number in range(max(map(len, nodes)))]
        charts.append(mirror("System memory of each node", "bytes", sides, numbered, (nodes[0], nodes[1])))
    return charts
