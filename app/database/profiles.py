"""Stored cost models, found by the fingerprint of the machine they were measured on and never used for another."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from emplace.app.database.plans import page_of
from emplace.app.database.tables import ProfileRow, State
from emplace.local_store import refusing_other_versions
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.host import HostSpec
from emplace.placement.reading import read_text


def columns_of(model: CostModel) -> dict[str, Any]:
    """What a finished profile's row says about it."""
    return {
        "state": State.DONE,
        "host_name": model.host_name,
        "host_fingerprint": model.fingerprint,
        "source": model.source,
        "ranks": model.ranks,
        "digest": model.content_digest(),
    }


def find(session: Session, profile_id: str) -> ProfileRow | None:
    return session.get(ProfileRow, profile_id, options=[undefer(ProfileRow.document)])


def find_cost_model(session: Session, host: HostSpec, ranks: int | None) -> CostModel | None:
    """The newest model measured on exactly this machine with as many ranks, else with the nearest number. None: never measured.

    Raises InvalidDocument for one that another version stored.
    """
    if host.fingerprint is None:
        return None
    wanted = ranks if ranks is not None else host.num_devices
    query = select(ProfileRow).where(
        ProfileRow.host_fingerprint == host.fingerprint,
        ProfileRow.state == State.DONE,
        ProfileRow.source == CostSource.MEASURED,
    )
    rows = session.scalars(query.order_by(ProfileRow.id.desc()))
    nearest = min(rows, key=lambda row: abs((row.ranks or 0) - wanted), default=None)
    if nearest is None or nearest.document is None:
        return None
    with refusing_other_versions(f"profile {nearest.id}"):
        return read_text(nearest.document, CostModel, source=f"profile {nearest.id}", as_json=True)


def page(session: Session, filters: dict[str, str | None], before: str | None, limit: int) -> tuple[list[ProfileRow], str | None]:
    """The newest profiles before a cursor that equal every given filter (by column), and the cursor of the next page."""
    query = select(ProfileRow).options(undefer(ProfileRow.document))
    for column, value in filters.items():
        if value is not None:
            query = query.where(getattr(ProfileRow, column) == value)
    return page_of(session, query, ProfileRow.id, before, limit)
