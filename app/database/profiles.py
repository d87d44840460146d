"""Stored profiles: cost models, uploaded or measured on a worker's host."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session, undefer

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
