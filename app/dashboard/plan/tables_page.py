"""All tables of a plan: the largest first, sorted by any column, searched, a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard.loaded import LoadedPlan, find_row, loaded
from emplace.app.dashboard.plan.table_lines import TableLine, table_lines
from emplace.app.dashboard.plans.list_page import PlanLine, plan_line
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.sorting import Column, Pager, in_order, sortable
from emplace.app.dashboard.units import size_unit, time_unit
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import Refused

router = APIRouter()

_ROWS = 100

Key = Callable[[TableLine], Any]
KEYS: dict[str, Key] = {
    "name": lambda each: each.name,
    "rows": lambda each: each.rows,
    "dim": lambda each: each.dim,
    "type": lambda each: each.data_type,
    "length": lambda each: each.mean_length,
    "bytes": lambda each: each.bytes,
    "lookups": lambda each: each.lookups,
    "time": lambda each: each.time_us,
    "share": lambda each: each.time_share,
    "sharding": lambda each: each.sharding,
    "kernel": lambda each: each.kernel,
    "shards": lambda each: each.shards,
}
Sort = Literal["name", "rows", "dim", "type", "length", "bytes", "lookups", "time", "share", "sharding", "kernel", "shards"]
Order = Literal["asc", "desc"]
Page = Annotated[int, Query(ge=1, le=1_000_000)]
Search = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True)
class TablesPage:
    plan: PlanLine
    search: str
    columns: list[Column]
    tables: list[TableLine]
    pager: Pager


def columns(tables: list[TableLine]) -> list[Column]:
    """Units are those in which the largest of these tables reads well."""
    return [
        Column("name", "Table", is_number=False),
        Column("rows", "Rows"),
        Column("dim", "Dim"),
        Column("type", "Data type", is_number=False),
        Column("length", "Mean length", hint="ids of an example, all features of the table together"),
        Column("bytes", "Bytes at peak", size_unit(each.bytes for each in tables).name),
        Column("lookups", "Lookups", "%", hint="share of all lookups of a step"),
        Column("time", "Time", time_unit(each.time_us for each in tables).name, hint="on all ranks together, all stages"),
        Column("share", "Of all tables", "%", hint="share of the time of all tables"),
        Column("sharding", "Sharding type", is_number=False),
        Column("kernel", "Kernel", is_number=False),
        Column("shards", "Ranks", is_number=False),
    ]


@router.get("/plans/{plan_id}/tables")
async def tables_page(
    request: Request, plan_id: str, service: TheService, q: Search = "", sort: Sort = "bytes", order: Order = "desc", page: Page = 1
) -> Response:
    """The tables of a plan."""
    view = await service.read(_page, request, plan_id, q.strip(), (sort, order == "desc"), page)
    return show(request, "tables.html", view)


def placed_plan(session: Session, plan_id: str) -> tuple[PlanLine, LoadedPlan]:
    """A plan that places tables. Raises Refused for any other."""
    row = find_row(session, plan_id)
    found = loaded(row)
    if found is None or not found.plan.has_placement:
        raise Refused(HTTPStatus.CONFLICT, f"the plan is {row.status or row.state}: it places no tables")
    return plan_line(row, None), found


def chosen_tables(found: LoadedPlan, search: str, sort: str, *, descending: bool) -> list[TableLine]:
    """Those whose names have every word of the search, in order."""
    words = search.lower().split()
    lines = [each for each in table_lines(found) if all(word in each.name.lower() for word in words)]
    return in_order(lines, KEYS[sort], descending=descending)


def _page(session: Session, request: Request, plan_id: str, search: str, order: tuple[str, bool], page: int) -> TablesPage:
    line, found = placed_plan(session, plan_id)
    sort, descending = order
    lines = chosen_tables(found, search, sort, descending=descending)
    shown = lines[(page - 1) * _ROWS : page * _ROWS]
    heads = sortable(request, columns(shown), sort, descending=descending)
    return TablesPage(line, search, heads, shown, Pager.of(request, page, _ROWS, len(lines)))
