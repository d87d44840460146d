"""The map of a plan: its tables against its ranks, coloured by bytes, time or lookups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard.addresses import with_query
from emplace.app.dashboard.charts.heat_map import HeatMap, heat_map
from emplace.app.dashboard.plan.tables_page import Order, Page, Search, Sort, chosen_tables, placed_plan
from emplace.app.dashboard.plans.list_page import PlanLine
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.sorting import Pager
from emplace.app.web.dependencies import TheService

router = APIRouter()

_ROWS = 100
_KINDS = {"bytes": ("Bytes", "bytes"), "time": ("Time", "time"), "lookups": ("Lookups", "count")}
_SORTS = {"bytes": "largest", "time": "most time", "lookups": "most lookups", "name": "name"}


@dataclass(frozen=True)
class Choice:
    """One of several ways to see it."""

    title: str
    href: str
    chosen: bool


@dataclass(frozen=True)
class MapPage:
    plan: PlanLine
    search: str
    map: HeatMap
    by: list[Choice]
    orders: list[Choice]
    pager: Pager


@router.get("/plans/{plan_id}/map")
async def map_page(
    request: Request,
    plan_id: str,
    service: TheService,
    by: Literal["bytes", "time", "lookups"] = "bytes",
    q: Search = "",
    sort: Sort = "bytes",
    order: Order = "desc",
    page: Page = 1,
) -> Response:
    """Tables against ranks."""
    view = await service.read(_page, request, plan_id, by, q.strip(), (sort, order == "desc"), page)
    return show(request, "map.html", view)


def _page(session: Session, request: Request, plan_id: str, by: str, search: str, order: tuple[str, bool], page: int) -> MapPage:
    line, found = placed_plan(session, plan_id)
    names = [placement.name for placement in found.plan.tables]
    numbers = {name: index for index, name in enumerate(names)}
    lines = chosen_tables(found, search, order[0], descending=order[1])
    shown = [numbers[each.name] for each in lines[(page - 1) * _ROWS : page * _ROWS]]
    what, kind = _KINDS[by]
    choices = [Choice(title, with_query(request, by=key, page=None), key == by) for key, (title, _) in _KINDS.items()]
    orders = [
        Choice(title, with_query(request, sort=key, order="asc" if key == "name" else "desc", page=None), key == order[0])
        for key, title in _SORTS.items()
    ]
    drawn = heat_map(what, kind, names, found.amounts[by], shown)
    return MapPage(line, search, drawn, choices, orders, Pager.of(request, page, _ROWS, len(lines)))
