"""Tables that are sorted by any of their columns and shown a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from emplace.app.dashboard.addresses import with_query

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column:
    """The head of a column. `sorted` is ascending or descending where the rows are in its order; `href` sorts by it, or turns it round."""

    key: str
    title: str
    unit: str = ""
    is_number: bool = True
    href: str | None = None
    sorted: str | None = None
    hint: str = ""


@dataclass(frozen=True)
class Pager:
    """Where this page stands among all."""

    page: int
    pages: int
    total: int
    before: str | None
    after: str | None

    @staticmethod
    def of(request: Request, page: int, rows: int, total: int) -> Pager:
        pages = max(1, -(-total // rows))
        before = with_query(request, page=page - 1 if page > 2 else None) if page > 1 else None
        return Pager(page, pages, total, before, with_query(request, page=page + 1) if page < pages else None)


def sortable(request: Request, columns: Iterable[Column], sort: str, *, descending: bool) -> list[Column]:
    """The heads with links: numbers are sorted from the largest first, words from the first letter."""
    return [_linked(request, column, sort, descending=descending) for column in columns]


def _linked(request: Request, column: Column, sort: str, *, descending: bool) -> Column:
    is_sorted = column.key == sort
    first = "desc" if column.is_number else "asc"
    order = ("asc" if descending else "desc") if is_sorted else first
    found = ("descending" if descending else "ascending") if is_sorted else None
    href = with_query(request, sort=column.key, order=order, page=None)
    return Column(column.key, column.title, column.unit, column.is_number, href, found, column.hint)


def in_order(rows: Sequence[Row], key: Callable[[Row], Any], *, descending: bool) -> list[Row]:
    """Sorted; rows without a value come last in either order."""
    known = [row for row in rows if key(row) is not None]
    return sorted(known, key=key, reverse=descending) + [row for row in rows if key(row) is None]
