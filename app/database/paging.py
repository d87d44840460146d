"""Pages of what is stored, newest first: ids sort by creation, so the last id is the cursor."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session
from sqlalchemy.orm.interfaces import ORMOption

from emplace.app.database.jobs import JobRow

Row = TypeVar("Row", bound=JobRow)


def page(
    session: Session, kind: type[Row], filters: dict[str, str | None], before: str | None, limit: int, *options: ORMOption
) -> tuple[list[Row], str | None]:
    """The newest rows before a cursor that equal every given filter (by column), loaded with `options`, and the cursor of the next page."""
    wanted = [getattr(kind, column) == value for column, value in filters.items() if value is not None]
    if before is not None:
        wanted.append(kind.id < before)
    rows = list(session.scalars(select(kind).where(*wanted).options(*options).order_by(kind.id.desc()).limit(limit + 1)))
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None
