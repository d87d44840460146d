"""What changed from one plan to another: the question first, then the placement, then what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import zip_longest
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard.charts.mirror import Mirror, Pair, mirror
from emplace.app.dashboard.charts.ranks import node_label, rank_label, server_machines
from emplace.app.dashboard.charts.stage_titles import OVERHEAD, STAGE_TITLES
from emplace.app.dashboard.loaded import find_row, loaded
from emplace.app.dashboard.plans.list_page import PlanLine, plan_line
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.stage_lengths import stage_lengths
from emplace.app.database import runs
from emplace.app.database.tables import PlanRow
from emplace.app.diff import Change, PlanDiff, TableChange, diff_plans
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import Refused
from emplace.placement.beside_stages import beside_stages_us, waits_for
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
        stages=compared_stages(before, after) if before.has_placement and after.has_placement else [],
        mirrors=list(mirrors(before, after)) if before.has_placement and after.has_placement else [],
        swapped=f"/compare?plan={rows[1].id}&plan={rows[0].id}",
    )


def _warning(before: Plan, after: Plan) -> str | None:
    if before.host.digest != after.host.digest:
        return f"Different hosts: {before.host.name} and {after.host.name}. What differs below is not the placement's doing alone."
    if before.cost_model.digest != after.cost_model.digest:
        kinds = [("measured" if each.cost_model.source is CostSource.MEASURED else "datasheet") for each in (before, after)]
        return f"Different prices: {kinds[0]} and {kinds[1]}. Predicted times of both are not to be compared."
    return None


def compared_stages(before: Plan, after: Plan) -> list[StagePair]:
    """The stages that either has, then what a step lasts beside them: both add up to their steps."""
    old, new = stage_lengths(before), stage_lengths(after)
    stages = [StagePair(key.value, title, old[key], new[key]) for key, title in STAGE_TITLES.items() if old[key] or new[key]]
    awaited = " or ".join(sorted({waits_for(before), waits_for(after)} - {""}))
    title = f"waiting for {awaited}" if awaited else OVERHEAD
    return [*stages, StagePair(OVERHEAD, title, beside_stages_us(before), beside_stages_us(after))]


def mirrors(before: Plan, after: Plan) -> Iterator[Mirror]:
    """Trainers beside trainers and servers beside servers, each in their order."""
    sides, plans = ("before", "after"), (before, after)
    own = [pair for servers in (False, True) for pair in _paired(*(_work(plan, servers=servers) for plan in plans))]
    yield mirror("Own work of each rank", "time", sides, own)
    if any(rank.hbm_bytes for plan in plans for rank in plan.ranks):
        yield mirror("Device memory of each rank", "bytes", sides, _paired(*map(_device_memory, plans)))
    if any(node.ddr_bytes for plan in plans for node in plan.nodes):
        held = [pair for servers in (False, True) for pair in _paired(*(_system_memory(plan, servers=servers) for plan in plans))]
        yield mirror("System memory of each node", "bytes", sides, held)


_Named = tuple[str, float]


def _work(plan: Plan, *, servers: bool) -> list[_Named]:
    return [(rank_label(rank), rank.step_time_us) for rank in plan.ranks if rank.is_server is servers]


def _device_memory(plan: Plan) -> list[_Named]:
    return [(rank_label(rank), float(rank.hbm_bytes)) for rank in plan.ranks if not rank.is_server]


def _system_memory(plan: Plan, *, servers: bool) -> list[_Named]:
    """The memory of nodes with trainers, or of servers that are machines of their own."""
    machines = server_machines(plan)
    nodes = [node for node in plan.nodes if (node.node in machines) is servers]
    return [(node_label(node.node, machines.get(node.node)), float(node.ddr_bytes)) for node in nodes]


def _paired(before: Sequence[_Named], after: Sequence[_Named]) -> list[Pair]:
    return [_pair(*both) for both in zip_longest(before, after)]


def _pair(before: _Named | None, after: _Named | None) -> Pair:
    """With both numbers where they differ: servers come after trainers, of which one plan may have more."""
    labels = list(dict.fromkeys(each[0] for each in (before, after) if each is not None))
    label = labels[0] if len(labels) == 1 else f"servers {', '.join(each.split()[1] for each in labels)}"
    return Pair(label, None if before is None else before[1], None if after is None else after[1])
