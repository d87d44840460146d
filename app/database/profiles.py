"""Stored profiles: cost models, uploaded or measured on a worker's host."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from emplace.app.database.plans import page_of
from emplace.app.database.tables import ProfileRow
from emplace.placement.cost_model import CostModel


def columns_of(model: CostModel) -> dict[str, Any]:
    """What a finished profile's row says about it."""
    return {
        "host_name": model.host_name,
        "host_fingerprint": model.fingerprint,
        "source": model.source,
        "ranks": model.ranks,
        "digest": model.content_digest(),
    }


def find(session: Session, profile_id: str) -> ProfileRow | None:
    return session.get(ProfileRow, profile_id, options=[undefer(ProfileRow.document)])


def page(session: Session, filters: dict[str, str | None], before: str | None, limit: int) -> tuple[list[ProfileRow], str | None]:
    """The newest profiles before a cursor that equal every given filter (by column), and the cursor of the next page."""
    query = select(ProfileRow).options(undefer(ProfileRow.document))
    for column, value in filters.items():
        if value is not None:
            query = query.where(getattr(ProfileRow, column) == value)
    return page_of(session, query, ProfileRow.id, before, limit)
